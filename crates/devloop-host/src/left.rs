//! What workers left that git ignores: it is in no commit and goes with the worktree. Told once, and listed
//! in PROGRESS.md while the loop lives. It judges nothing; the commit does.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use devloop_core::ids::TaskId;
use devloop_core::render::one_line;

use crate::git::RepoPath;

/// How many names of one run are kept.
const NAMES_KEPT: usize = 20;
/// Characters of each.
const NAME_CHARS: usize = 200;

/// What one run left.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Names {
    shown: Vec<String>,
    total: usize,
}

impl Names {
    fn line(&self) -> String {
        let more = self.total - self.shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", self.shown.join(", "))
    }
}

#[derive(Debug, Default)]
struct Table {
    untold: Vec<String>,
    by_task: BTreeMap<TaskId, Names>,
}

/// What the workers of this process left, by task: of each the last run that left something.
#[derive(Debug, Default)]
pub struct Left(Mutex<Table>);

impl Left {
    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic between its two changes loses a remark, nothing more.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what a run of a task left; nothing is no news.
    pub(crate) fn add(&self, task: &TaskId, names: &[RepoPath]) {
        if names.is_empty() {
            return;
        }
        let shown = names.iter().take(NAMES_KEPT).map(|name| one_line(&name.to_string(), NAME_CHARS));
        let names = Names { shown: shown.collect(), total: names.len() };
        let mut table = self.table();
        table.untold.push(format!("the worker of {task} left what git ignores: {}", names.line()));
        table.by_task.insert(task.clone(), names);
    }

    /// The remarks that were not taken yet.
    #[must_use]
    pub fn take_remarks(&self) -> Vec<String> {
        std::mem::take(&mut self.table().untold)
    }

    /// The section of PROGRESS.md; empty when nothing was left.
    #[must_use]
    pub fn section(&self) -> String {
        let table = self.table();
        if table.by_task.is_empty() {
            return String::new();
        }
        // Indented by four, so that a name is shown as it is and never read as Markdown.
        let lines = table.by_task.iter().map(|(task, names)| format!("    {task}: {}\n", names.line()));
        let head = "\n## Left by workers, ignored by git and in no commit\n\n".to_owned();
        std::iter::once(head).chain(lines).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(count: usize) -> Vec<RepoPath> {
        (0..count).map(|n| RepoPath::new(format!("n{n}"))).collect()
    }

    #[test]
    fn names_are_listed_up_to_the_limit_and_counted_above_it() {
        let (left, task) = (Left::default(), TaskId::parse("t").unwrap());
        left.add(&task, &[]);
        assert_eq!((left.section(), left.take_remarks()), (String::new(), Vec::new()));
        left.add(&task, &names(NAMES_KEPT));
        assert!(left.take_remarks()[0].ends_with("n18, n19"));
        assert_eq!(left.take_remarks(), Vec::<String>::new(), "each is told once");
        left.add(&task, &names(NAMES_KEPT + 1));
        assert!(left.section().ends_with("n18, n19 and 1 more\n"), "{}", left.section());
    }

    #[test]
    fn a_name_commands_no_terminal_and_no_page() {
        let left = Left::default();
        left.add(&TaskId::parse("t").unwrap(), &[RepoPath::new("a\u{1b}[2J\n# b"), RepoPath::new("dist/")]);
        assert!(left.section().ends_with("\n\n    t: a\\u{1b}[2J\\n# b, dist/\n"), "{}", left.section());
        let long = RepoPath::new("x".repeat(NAME_CHARS + 1));
        left.add(&TaskId::parse("long").unwrap(), &[long]);
        let line = left.section().lines().find(|line| line.contains("long")).unwrap().len();
        assert!(line < NAME_CHARS + 20, "{line}");
    }
}
