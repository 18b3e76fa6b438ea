//! Owns the nights that start with files of version 1: a held task as the earlier plugin left it, translated
//! by the migration that a project goes through. It decides nothing.

use devloop_core::hold::HoldKind;
use devloop_core::ids::Branch;
use devloop_core::state::LoopState;
use devloop_core::units::WallMs;
use devloop_wire::migrate::{OldFiles, Present, migrate};
use serde_json::json;

use super::draw::Draw;
use super::goal_digest;

/// What the earlier plugin asked about: what only its states have, and two that the loop asks about as well.
fn kinds() -> Vec<HoldKind> {
    let carried = HoldKind::ALL.iter().copied().filter(|kind| kind.is_carried_over());
    carried.chain([HoldKind::BlockedTask, HoldKind::MergeWedged]).collect()
}

/// A state in which one task is held and another one waits for it.
///
/// # Panics
/// Never: the files are whole.
pub fn state(draw: &mut Draw, now: WallMs, branch: &str) -> LoopState {
    let kind = draw.pick(&kinds());
    let status = draw.pick(&["review_pending", "rework", "merge_ready"]);
    let risk = draw.pick(&["low", "high"]);
    let detail = draw.pick(&["", ":as it was found"]);
    let task = |id: &str, status: &str, tip: Option<&str>| {
        json!({
            "id": id, "title": format!("do {id}"), "tier": "T1", "status": status, "risk": risk,
            "attempts": 1, "reviewCycles": 0, "allowedPaths": [format!("{id}/**")],
            "acceptance": ["it works"], "implementer": "north/small", "reviewer": "north/lead",
            "baseSha": format!("{:040x}", 1), "implementationSha": tip,
        })
    };
    let tip = format!("{:040x}", 0xabcd);
    let file = json!({
        "version": 1, "revision": 12, "goalCompleted": false, "killSwitch": true,
        "supervisor": { "taskId": "old-1", "reason": format!("{kind}{detail}") },
        "tasks": [task("old-1", status, Some(&tip)), task("old-2", "ready", None)],
        "usage": {
            "taskAttempts": { "old-1": 1 }, "reviewCycles": {}, "taskStartedAt": { "old-1": 1 },
            "tokens": {}, "costUsdSession": 0, "costUsdDay": 0.25, "lastProgressAt": now.0,
        },
        "workBranch": branch, "updatedAt": "2026-01-01T00:00:00.000Z",
    });
    let bytes = file.to_string().into_bytes();
    let files = OldFiles { state: Some(&bytes), ..OldFiles::default() };
    let present = Present { goal: Some(goal_digest(0)), branch: Branch::parse(branch).ok() };
    migrate(&files, &present).expect("whole files of version 1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dullest_start_has_one_question() {
        let state = state(&mut Draw::of_script(Default::default()), WallMs(1_790_000_000_000), "work");
        let open: Vec<_> = state.open_holds().iter().map(|(_, hold)| hold.kind).collect();
        assert_eq!(open, [HoldKind::NoReviewPass]);
    }
}
