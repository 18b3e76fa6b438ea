//! The words of questions: one row per kind of hold, its question and what can be done outside the loop.
//! Names in braces are filled in from the state; a step whose name has no value is left out.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{Facts, goal_branch};
use crate::hold::{HoldKind, Subject};

/// The question of one kind and the steps by hand.
type Row = (&'static str, &'static [&'static str]);

/// A `match` without a wildcard: a new kind does not compile until it has its words.
macro_rules! rows {
    ($($kind:ident: $question:literal, [$($step:literal),* $(,)?];)*) => {
        fn row(kind: HoldKind) -> Row {
            match kind { $(HoldKind::$kind => ($question, &[$($step),*]),)* }
        }
    };
}

rows! {
    EmptyTask: "{Who} came back without any change. Does it need one?", [];
    ScopeViolation: "{Who} changed paths outside its contract, so nothing was committed. Try again as it is, \
        or widen its paths first?",
        ["Widen the paths, then answer retry: devloop task edit {id} --paths <glob>"];
    ScopeCheckFailed: "Which paths {who} changed could not be told, so nothing was committed. Try again?",
        ["Look for leftovers in .devloop/worktrees/ and in the repository: devloop doctor"];
    NoReviewPass: "{Who} would be merged without a review that passed. Review its commit, or work on it \
        again?", [];
    StaleReviewSha: "The review of {who} names another commit than the one that is there. Review that one, \
        or work on it again?", [];
    UnknownReviewSha: "The review of {who} names a commit that nobody here knows. Review the commit that is \
        there, or work on it again?",
        [];
    ReviewerIdentityConflict: "Whoever reviewed {who} had worked on it, so the review does not count. Review \
        it again?",
        ["Name a reviewer of another identity: reviewerRoute in the configuration",
         "Where review is not offered, count its reviews anew: devloop resume --task {id}"];
    SecurityHighRisk: "{Who} is of high risk and waits for you. Merge it?",
        ["Read the change: git diff {base} {tip}",
         "Lower the risk, if it is not high: devloop task edit {id} --risk medium"];
    MaxTaskAttempts: "{Who} used up its attempts. Give it as many again?",
        ["Say better what is wanted, then answer retry: devloop task edit {id} --criteria <text>",
         "Allow more of every task: budget.maxTaskAttempts in the configuration"];
    RepeatedTestFailure: "The worker reports that it failed at {who}. Try again?",
        ["Say better what is wanted, then answer retry: devloop task edit {id} --criteria <text>"];
    MaxReviewCycles: "{Who} was reviewed as often as allowed and never passed. Work on it again?",
        ["Read the change: git diff {base} {tip}",
         "Allow more of every task: budget.maxReviewCycles in the configuration"];
    NoConvergence: "The review of {who} comes no closer to a pass: a finding came again, or there are not \
        fewer than in the review before. Have it mended once more?",
        ["Read the change: git diff {base} {tip}",
         "Say better what is wanted, then answer retry: devloop task edit {id} --criteria <text>"];
    DailyCostCap: "The money of this day is spent or set aside. Allow one more day's worth now?",
        ["Raise budget.maxCostUsdPerDay in the configuration", "Wait: the next day starts at midnight UTC"];
    SessionCostCap: "The money since this process started is spent or set aside. Allow as much again?",
        ["Raise budget.maxCostUsdPerSession in the configuration",
         "Start the loop anew: this sum starts with the process"];
    GoalCostCap: "The money of this goal is spent or set aside. Allow as much again?",
        ["Raise budget.maxCostUsdPerGoal in the configuration"];
    TaskCostCap: "The money of {who} is spent or set aside. Allow as much again?",
        ["Raise budget.maxCostUsdPerTask in the configuration"];
    AllProjectsDailyCap: "The money of this day over all projects is spent or set aside. Allow one more \
        day's worth now?",
        ["Raise maxCostUsdPerDayAllProjects in the configuration", "Wait: the next day starts at midnight \
        UTC"];
    ReserveExceedsCap: "One dispatch sets aside more than a whole cap allows, so it could never start. Allow \
        more?",
        ["Lower reserveUsd or maxTokens of the route, or raise the cap, in the configuration"];
    MaxTokensPerTask: "{Who} used up its tokens. Allow as many again?",
        ["Raise budget.maxTokensPerTask in the configuration"];
    BlockedTask: "{Who} is reported as blocked. Try again, or plan it differently?",
        ["Remove what is in its way, then answer retry"];
    MergeWedged: "A merge of {who} could not be finished or undone safely. Try the merge again?",
        ["Make the checkout clean and end any merge or rebase in it: git status"];
    UnknownBase: "A commit that {who} relies on is gone, or {target} lost it. Start it afresh?", [];
    MergeOntoTrunk: "{Target} is a trunk. Make a branch for this goal, or merge there? Planning and work go \
        on meanwhile.",
        [];
    MergeDetachedHead: "The checkout was on no branch when the goal started, so there is nowhere to merge \
        to. Make a branch for this goal?", [];
    DispatchRefused: "No provider would start {who}; nothing was spent. Mend the route and try again?",
        ["See what is wrong with the routes: devloop doctor",
         "Mend backend, model or login of the route, then answer retry"];
    ReviewRequestedReplan: "The reviewer rejects {who} itself, not only the work on it. Plan it anew?", [];
    Replans: "{Who} was planned anew as often as allowed. Plan it anew once more, or work on it as it is?",
        ["Say better what is wanted, then answer retry: devloop task edit {id} --criteria <text>"];
    AcceptanceFailed: "A required check keeps failing for {who}. Work on it again?",
        ["Run the check yourself in a checkout of {tip}",
         "If the check is at fault, mend acceptance in the configuration, then answer retry"];
    CheckUnavailable: "A check for {who} could not start or ran out of time, which is not the task's fault. \
        Take its commit up again?",
        ["Make the check start in a new checkout of {tip}, or raise acceptanceTimeoutMinutes in the \
        configuration"];
    TaskOverBudget: "{Who} is too large for one review or for the model's context window, and it was planned \
        anew as often as allowed. Split it once more?",
        ["Allow more of every task: budget.replans in the configuration",
         "Keep generated files out of what a reviewer must read: <path> -diff in .gitattributes"];
    PreprBlocked: "A rule of the project refused the change for {who} before its review. Work on it again?",
        ["Run the rule yourself in a checkout of {tip}"];
    PreprUnavailable: "A rule of the project gave no word on the change for {who}. Take its commit up again?",
        ["Run the rule yourself in a checkout of {tip}"];
    ForgeMergeRefused: "The forge refused to merge {who}. Try the merge again? No worker runs.",
        ["Mend what the forge names: protection, login or settings"];
    InvalidAgentResult: "What came back for {who} was for something else and was not used. Try again?", [];
    ResultTransitionFailed: "What came back for {who} could not be applied; nothing was changed. Try again?",
        ["See what the configuration lacks: devloop doctor"];
    BackendFailed: "The backend failed at {who} after a model was reached. Try again?",
        ["See what is wrong with the routes: devloop doctor"];
    ParentCommitFailed: "The work on {who} could not be committed. Try again?",
        ["Look for a lock or an unfinished merge in the repository: git status"];
    MissingReviewWorktree: "The commit of {who} that was to be reviewed is gone. Start it afresh?", [];
    MissingAgentResult: "Nothing usable came back for {who}. Try again?", [];
    TaskTimeout: "{Who} used up its whole lifetime. Give it as much again?",
        ["Raise budget.taskLifetimeMinutes in the configuration"];
    NoProgress: "Nothing has moved for too long. Keep waiting?",
        ["Commit or stash the changes in your checkout of {target}, or leave that branch: the merge then \
        goes on"];
    DuplicateAction: "The same step of {who} was started again and again without any change. Try again?",
        ["Say better what is wanted, then answer retry: devloop task edit {id} --criteria <text>"];
    TaskBranchTaken: "The branch devloop/{id} holds other work than that on {who}. Try again once it is \
        moved?",
        ["Move it away, then answer retry: git branch -m devloop/{id} <new name>"];
    Orphans: "Dispatches of {who} keep dying before they start. Try again?",
        ["Look at memory, disk and programs of this machine: devloop doctor"];
    Refreshes: "{Target} kept moving: the branch of {who} was brought up to date as often as allowed. Try \
        again?",
        ["Let other work on {target} rest, then answer retry"];
    MergeConflict: "{Who} and {target} change the same lines, again. Try the merge again, or start afresh \
        from {target} as it is now?", [];
    BaseMoved: "{Target} could not be moved to the merge of {who} at any try. Try again?",
        ["Let other work on {target} rest and make your checkout clean, then answer retry"];
    PostMergeRed: "{Who} was merged, is not known to be good there, and was not taken back. Work on it \
        again, or leave it?",
        ["Take the merge back yourself: git revert -m 1 {last_merge}"];
    DependencyDropped: "{Who} depends on a task that was given up. Go on without it?", [];
    NoIndependentReviewer: "Nobody who may review {who} differs from who would work or worked on it. Name a \
        reviewer and try again?",
        ["Name a reviewer of another identity, or a fallback for it: reviewerRoute in the configuration"];
    LateCommit: "The branch of {who} moved after its worker was ended. Try again?",
        ["Look at what was added: git log devloop/{id}"];
    SecretInDiff: "The change for {who} seems to hold a secret and was not committed. Start it afresh?",
        ["If the secret is real, have it replaced where it was issued: a worker has read it"];
    EscapedWrite: "Your own checkout changed while a model was busy with {who}. Try again?",
        ["Look at your checkout and undo what is not yours: git status"];
    PlanAttempts: "No acceptable plan came back as often as allowed. Plan again?",
        ["Make .devloop/GOAL.md clearer or smaller"];
    PlanRefusals: "No provider would start planning; nothing was spent. Mend the route and try again?",
        ["See what is wrong with the routes: devloop doctor",
         "Mend backend, model or login of plannerRoute, then answer retry"];
    EmptyPlan: "The planner sees nothing to do. Plan again?", ["Say in .devloop/GOAL.md what is missing"];
    GoalChanged: "The text of the goal changed. Keep the plan for the new text, or plan anew?",
        ["Put the old text back: the question then goes away by itself"];
    GoalUnusable: "The goal cannot be read any more, so nothing new is started. Look at it again?",
        ["Make .devloop/GOAL.md a text file of at most 64 KiB again: the question then goes away by itself"];
    ChecksRedAtBase: "Your checks fail on {target} before any work. Go on with these failures as known ones?",
        ["Mend the checks on {target}, then answer retry", "Change acceptance in the configuration, then \
        answer retry"];
    TargetRewound: "{Target} no longer contains the loop's last merge. Go on from where it is now?",
        ["Bring the merge back, on {target}: git merge {last_merge}"];
    RouteClosed: "{Who} is closed: its provider takes no dispatch. Open it again?",
        ["Mend what keeps it closed: credit, login, limits", "Name a fallback for the route in the \
        configuration"];
    QuotaWaitTooLong: "{Who} is closed until its quota resets, which is far away. Open it now? It opens by \
        itself then.",
        ["Name a fallback for the route in the configuration"];
}

/// The question in one or two sentences.
pub(super) fn question(f: &Facts<'_>) -> String {
    let unknown_checks = f.hold.kind == HoldKind::ChecksRedAtBase && f.hold.items.is_empty();
    let before_work = f.hold.kind == HoldKind::SecurityHighRisk && !f.is_reviewed();
    let template = if unknown_checks {
        "Your checks could not be run on {target} before the work. Start without them?"
    } else if before_work {
        "{Who} is of high risk and waits for you. Let the work go on?"
    } else {
        row(f.hold.kind).0
    };
    fill(f, template).unwrap_or_else(|| template.to_string())
}

/// What can be done outside the loop.
pub(super) fn by_hand(f: &Facts<'_>) -> Vec<String> {
    row(f.hold.kind).1.iter().filter_map(|step| fill(f, step)).collect()
}

/// Fills the names of a template in one pass, so that a title is never read as a template; none when one has
/// no value.
fn fill(f: &Facts<'_>, template: &str) -> Option<String> {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, tail)) = rest.split_once('{') {
        let (name, after) = tail.split_once('}')?;
        out.push_str(before);
        out.push_str(&value(f, name)?);
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

fn value(f: &Facts<'_>, name: &str) -> Option<String> {
    match name {
        "who" => Some(f.name()),
        "Who" => Some(capital(&f.name())),
        "target" => Some(f.target()),
        // A branch keeps its name; only our own words begin a sentence in upper case.
        "Target" => Some(match &f.state.target.branch {
            Some(branch) => alloc::format!("Branch {branch}"),
            None => capital(&f.target()),
        }),
        "goal_branch" => Some(goal_branch(f.state)),
        "id" => match f.subject {
            Subject::Task(id) => Some(id.to_string()),
            _ => None,
        },
        "tip" => f.tip().map(ToString::to_string),
        "base" => f.task?.base.as_ref().map(ToString::to_string),
        "last_merge" => f.state.target.last_merge.as_ref().map(ToString::to_string),
        _ => None,
    }
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}
