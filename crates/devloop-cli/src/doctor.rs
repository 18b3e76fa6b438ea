//! `devloop doctor`: what is wrong around a loop, whose it is, and what to do next. It changes nothing unless
//! it is asked to repair.

use clap::Args;
use devloop_host::doctor::{self, Finding, Weight};
use devloop_host::error::{ErrorKind, HostError};

use crate::cli::{FINE, Form, NEEDS_A_PERSON, Outcome};
use crate::place::{self, Root};
use crate::say;

/// Looks at everything around the loop; changes nothing by itself
#[derive(Clone, Debug, Args)]
pub struct Doctor {
    #[command(flatten)]
    pub root: Root,
    /// First remove what is left over and proven to be ours and merged; not beside a running loop
    #[arg(long)]
    pub repair: bool,
    #[command(flatten)]
    pub form: Form,
}

/// Performs the verb.
///
/// # Errors
/// When there is no such folder at all.
pub fn perform(verb: &Doctor) -> Outcome {
    let root = verb.root.folder()?;
    let mut found = if verb.repair {
        doctor::repair(&root, place::user()?).map_err(|error| place::about(error, &root))?
    } else {
        Vec::new()
    };
    found.extend(doctor::examine(&root, place::user().ok().as_ref()));
    if verb.form.json {
        let mut value = serde_json::to_value(&found).map_err(|error| {
            HostError::new(ErrorKind::Internal, "the findings are no JSON").because(error)
        })?;
        for (row, finding) in value.as_array_mut().into_iter().flatten().zip(&found) {
            row["next"] = finding.next.as_ref().map(|next| say::command(next)).into();
        }
        say::json(&value);
    } else {
        found.iter().flat_map(lines).for_each(say::line);
    }
    let problems = found.iter().filter(|finding| finding.weight == Weight::Problem).count();
    if !verb.form.json {
        let text = match problems {
            0 => "Nothing is wrong.".to_owned(),
            n => format!("{} to look at.", crate::picture::count(n, "problem")),
        };
        say::line(text);
    }
    Ok(if problems == 0 { FINE } else { NEEDS_A_PERSON })
}

fn lines(finding: &Finding) -> Vec<String> {
    let mark = match finding.weight {
        Weight::Well => "well",
        Weight::Note => "note",
        Weight::Problem => "PROBLEM",
    };
    let path = finding.path.as_ref().map(|path| path.display().to_string());
    let path = path.filter(|path| !finding.text.contains(path.as_str()));
    let path = path.map(|path| format!(" ({path})")).unwrap_or_default();
    let mut lines = vec![format!("{mark:<7}  {:<10}  {}{path}", finding.about, finding.text)];
    lines.extend(finding.next.iter().map(|next| format!("{:21}try: {}", "", say::command(next))));
    lines
}
