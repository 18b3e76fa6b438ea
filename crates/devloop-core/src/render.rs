//! Renders the state for people: PROGRESS.md, the words of stages, money and times. It decides nothing.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::Write;

use crate::circuit::{Cap, Circuit, loop_caps};
use crate::ids::Oid;
use crate::ledger::Spend;
use crate::policy::Policy;
use crate::state::{Ending, LoopState, Phase, Planning};
use crate::task::{Done, ReviewRun, Stage};
use crate::units::{DAY_MS, UsdMicros, WallMs};

/// The longest title that a list shows, in characters.
const MAX_TITLE: usize = 120;

/// Money in dollars, exactly: at least two digits after the point, more only where they are not zero.
#[must_use]
pub fn usd(amount: UsdMicros) -> String {
    let (dollars, micros) = (amount.0 / 1_000_000, amount.0 % 1_000_000);
    let digits = format!("{micros:06}");
    let shown = digits.trim_end_matches('0').len().max(2);
    let at_least = if amount.is_saturated() { "at least " } else { "" };
    format!("{at_least}${dollars}.{}", &digits[..shown])
}

/// A moment as `2026-03-01 12:03 UTC`.
#[must_use]
pub fn utc(at: WallMs) -> String {
    let (year, month, day) = civil(at.day().0);
    let minutes = at.0 % DAY_MS / 60_000;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02} UTC", minutes / 60, minutes % 60)
}

/// Year, month and day of a count of days since 1970-01-01, by whole 400-year periods that start on 1 March
/// 0000.
fn civil(days: u64) -> (u64, u64, u64) {
    let since_march = days + 719_468;
    let (period, day) = (since_march / 146_097, since_march % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day_of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let month_day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (period * 400 + year + carry, month, month_day)
}

/// The first digits of a commit, as many as people are used to read.
#[must_use]
pub fn short(oid: &Oid) -> &str {
    oid.as_str().get(..10).unwrap_or(oid.as_str())
}

/// A text on one line of at most `max` characters: control characters become spaces, a cut is marked.
#[must_use]
pub fn one_line(text: &str, max: usize) -> String {
    let clean = |c: char| if c.is_control() || c == '\u{2028}' || c == '\u{2029}' { ' ' } else { c };
    let mut out: String = text.trim().chars().map(clean).take(max + 1).collect();
    if out.chars().count() > max {
        out = out.chars().take(max.saturating_sub(3)).collect();
        out.push_str("...");
    }
    out
}

/// Every word of [`stage_word`], in the order of a task's life.
const WORDS: [&str; 20] = [
    "ready",
    "working",
    "committing",
    "committed",
    "checking",
    "awaiting review",
    "in review",
    "rework",
    "merge ready",
    "merging",
    "refreshing",
    "verifying",
    "reverting",
    "replanning",
    "held",
    "merged",
    "accepted",
    "merged elsewhere",
    "replaced",
    "dropped",
];

/// A stage in one or two words.
#[must_use]
pub fn stage_word(stage: &Stage) -> &'static str {
    match stage {
        Stage::Ready => "ready",
        Stage::Working(_) => "working",
        Stage::Committing(_) => "committing",
        Stage::Committed { .. } => "committed",
        Stage::Checking(_) => "checking",
        Stage::AwaitingReview { .. } => "awaiting review",
        Stage::InReview(ReviewRun::Dispatch(_) | ReviewRun::Forge { .. }) => "in review",
        Stage::Rework { .. } => "rework",
        Stage::MergeReady(_) => "merge ready",
        Stage::Merging(..) => "merging",
        Stage::Refreshing(_) => "refreshing",
        Stage::Verifying(_) => "verifying",
        Stage::Reverting(_) => "reverting",
        Stage::Replanning => "replanning",
        Stage::Held { .. } => "held",
        Stage::Done(Done::Merged { .. }) => "merged",
        Stage::Done(Done::Accepted) => "accepted",
        Stage::Done(Done::MergedElsewhere) => "merged elsewhere",
        Stage::Dropped { replaced_by } if replaced_by.is_empty() => "dropped",
        Stage::Dropped { .. } => "replaced",
    }
}

/// The loop's phase in one sentence.
#[must_use]
pub fn phase_sentence(state: &LoopState) -> String {
    match &state.phase {
        Phase::Active if state.goal.number == 0 => "No goal was started yet.".to_string(),
        Phase::Active => "The loop is active.".to_string(),
        Phase::Paused { by, at } => format!("Paused by {} at {}.", one_line(by, MAX_TITLE), utc(*at)),
        Phase::Complete { at } => format!("Complete since {}.", utc(*at)),
    }
}

/// Four sums in one sentence: how sure each part of the money is.
#[must_use]
pub fn spend_line(spend: &Spend) -> String {
    let [measured, priced, assumed] = [spend.measured, spend.priced, spend.assumed].map(usd);
    format!("{measured} measured, {priced} priced, {assumed} assumed, {} reserved", usd(spend.reserved))
}

/// PROGRESS.md: where everything stands. `instance` is the supervisor's, for the money since it started.
#[must_use]
pub fn progress(state: &LoopState, policy: &Policy, instance: u64) -> String {
    let mut out = format!(
        "# Progress of goal {}\n\nRevision {}. {} Planning: {}.\n",
        state.goal.number,
        state.revision,
        phase_sentence(state),
        planning_word(&state.planning),
    );
    money(&mut out, state, policy, instance);
    tasks(&mut out, state);
    leases(&mut out, state);
    questions(&mut out, state, policy, instance);
    out
}

fn planning_word(planning: &Planning) -> &'static str {
    match planning {
        Planning::Idle => "idle",
        Planning::Wanted { .. } => "wanted",
        Planning::Working { .. } => "working",
        Planning::Held { .. } => "held",
    }
}

/// Adds one line. Writing to a string cannot fail.
fn line(out: &mut String, text: core::fmt::Arguments<'_>) {
    let _ = out.write_fmt(text);
    out.push('\n');
}

fn money(out: &mut String, state: &LoopState, policy: &Policy, instance: u64) {
    out.push_str("\n## Money\n\n");
    let caps = loop_caps(state, &policy.limits, instance);
    let cap_of = |circuit: Circuit| caps.iter().find(|cap| cap.circuit == circuit);
    let limit = |cap: Option<&Cap>| cap.map_or("no cap".to_string(), |c| format!("cap {}", usd(c.limit)));
    let rows = [
        ("Goal", state.ledger.goal(state.goal.number), cap_of(Circuit::GoalCostCap)),
        ("Day", state.ledger.day(state.clock.day), cap_of(Circuit::DailyCostCap)),
        ("Since start", state.ledger.session(instance), cap_of(Circuit::SessionCostCap)),
    ];
    for (name, spend, cap) in rows {
        line(out, format_args!("* {name}: {}; {}", spend_line(&spend), limit(cap)));
    }
}

fn tasks(out: &mut String, state: &LoopState) {
    out.push_str("\n## Tasks\n\n");
    if state.tasks.is_empty() {
        out.push_str("None yet.\n");
        return;
    }
    let words: Vec<&str> = state.tasks.iter().map(|task| stage_word(&task.stage)).collect();
    let count = |word: &&str| words.iter().filter(|w| w == &word).count();
    let counts = WORDS.iter().map(|word| (word, count(word))).filter(|(_, n)| *n > 0);
    let counts: Vec<String> = counts.map(|(word, n)| format!("{n} {word}")).collect();
    line(out, format_args!("{} in all: {}.\n", state.tasks.len(), counts.join(", ")));
    let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
    let id_width = width(&mut state.tasks.iter().map(|task| task.id.as_str().len()));
    let word_width = width(&mut words.iter().map(|word| word.len()));
    for (task, word) in state.tasks.iter().zip(&words) {
        // Indented by four, so that a title is shown as it is and never read as Markdown.
        let title = one_line(&task.title, MAX_TITLE);
        line(out, format_args!("    {:id_width$}  {word:word_width$}  {title}", task.id.as_str()));
    }
}

fn leases(out: &mut String, state: &LoopState) {
    out.push_str("\n## Running\n\n");
    if state.leases.is_empty() {
        out.push_str("Nothing.\n");
    }
    for (dispatch, lease) in &state.leases {
        let route = lease.route.as_ref().map(|route| format!(" by route `{route}`")).unwrap_or_default();
        let ending = match lease.ending {
            None => "",
            Some(Ending::Deadline) => ", being ended: out of time",
            Some(Ending::Operator) => ", being ended: asked by a person",
            Some(Ending::Orphan) => ", being ended: its owner died",
        };
        line(out, format_args!("* {dispatch}: {} of {}{route}{ending}", lease.op.key(), lease.subject));
    }
}

fn questions(out: &mut String, state: &LoopState, policy: &Policy, instance: u64) {
    out.push_str("\n## Open questions\n\n");
    let open = crate::question::open_questions(state, policy, instance);
    if open.is_empty() {
        out.push_str("None.\n");
    }
    for question in open {
        let words: Vec<String> =
            question.answers.iter().map(|offer| format!("`{}`", offer.answer.word())).collect();
        let left = if question.acknowledged { " (left as it is)" } else { "" };
        line(out, format_args!("* `{}`{left}: {}", question.key, question.text));
        line(out, format_args!("  Answers: {}.", words.join(", ")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hold::{HoldKind, Subject};
    use crate::question::samples::{
        held, hold, lease, policy, reviewed, state, task, task_id, with_hold, worked,
    };
    use crate::state::Op;
    use crate::task::ResumeTo;
    use crate::units::MAX_NUMBER;

    #[test]
    fn money_is_shown_exactly() {
        let rows = [
            (0, "$0.00"),
            (500_000, "$0.50"),
            (20_000_000, "$20.00"),
            (1, "$0.000001"),
            (1_234_500, "$1.2345"),
            (1_010_000, "$1.01"),
            (MAX_NUMBER, "at least $9007199254.740991"),
        ];
        for (micros, expect) in rows {
            assert_eq!(usd(UsdMicros(micros)), expect);
        }
    }

    #[test]
    fn moments_are_shown_in_utc() {
        let rows = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400_000, "2000-02-29 00:00 UTC"),
            (1_709_251_199_999, "2024-02-29 23:59 UTC"),
            (1_709_251_200_000, "2024-03-01 00:00 UTC"),
            (4_107_542_400_000, "2100-03-01 00:00 UTC"),
            (1_798_761_599_999, "2026-12-31 23:59 UTC"),
        ];
        for (ms, expect) in rows {
            assert_eq!(utc(WallMs(ms)), expect);
        }
        assert!(!utc(WallMs(MAX_NUMBER)).is_empty());
    }

    #[test]
    fn a_line_is_one_line_and_its_cut_is_marked() {
        assert_eq!(one_line(" a\nb\u{1b}c\u{2028}d ", 80), "a b c d");
        assert_eq!(one_line("abcdef", 6), "abcdef");
        assert_eq!(one_line("abcdefg", 6), "abc...");
        assert_eq!(one_line("ééééééé", 6), "ééé...");
    }

    #[test]
    fn progress_shows_everything_once() {
        let mut second = task("long-name", Stage::Working(crate::ids::DispatchId(3)));
        second.title = "# not a\nheading".into();
        let tasks = [worked("a", held(ResumeTo::MergeReady(reviewed()), HoldKind::BaseMoved)), second];
        let mut state = with_hold(state(tasks), Subject::Loop, hold(HoldKind::DailyCostCap));
        lease(&mut state, 3, Op::Work, Subject::Task(task_id("long-name")));
        let text = progress(&state, &policy(), 1);
        let expect = [
            "# Progress of goal 2",
            "Revision 9. The loop is active. Planning: idle.",
            "* Goal: $0.00 measured, $0.00 priced, $0.00 assumed, $0.50 reserved; no cap",
            "* Day: $0.00 measured, $0.00 priced, $0.00 assumed, $0.50 reserved; cap $20.00",
            "2 in all: 1 working, 1 held.",
            "    a          held     do a",
            "    long-name  working  # not a heading",
            "* d3: work of task/long-name by route `work`",
            "* `loop:daily_cost_cap`: The money of this day is spent or set aside.",
            "  Answers: `allow`, `stop`.",
            "* `task/a:base_moved`: Branch main could not be moved",
        ];
        let mut rest = text.as_str();
        for line in expect {
            let at = rest.find(line);
            assert!(at.is_some(), "{line} is missing or out of order in\n{text}");
            rest = &rest[at.unwrap_or_default() + line.len()..];
        }
    }

    #[test]
    fn an_empty_project_has_a_progress_too() {
        let text = progress(&LoopState::default(), &policy(), 1);
        for line in ["No goal was started yet.", "None yet.", "Nothing.", "None."] {
            assert!(text.contains(line), "{line}");
        }
    }

    #[test]
    fn every_word_of_a_stage_is_counted() {
        let dropped = |n: usize| Stage::Dropped { replaced_by: alloc::vec![task_id("x"); n] };
        let done = [Stage::Done(Done::Accepted), Stage::Done(Done::MergedElsewhere), dropped(0), dropped(1)];
        for stage in done.into_iter().chain([Stage::Ready, Stage::Replanning, Stage::MergeReady(reviewed())])
        {
            assert!(WORDS.contains(&stage_word(&stage)), "{}", stage_word(&stage));
        }
    }
}
