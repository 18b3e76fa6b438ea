//! Owns every wish an operator can have, sensible or not, and what must be true of the reply to each.

use devloop_core::answer::Answer;
use devloop_core::command::{Command, TaskEdit, Wish};
use devloop_core::decide::Input;
use devloop_core::effect::Effect;
use devloop_core::hold::{HoldKey, HoldKind, Subject};
use devloop_core::reason::Reason;
use devloop_core::tier::{Risk, Tier};

use super::every::{every, units};
use super::judge::step;
use super::scene::{Scene, id};

fn edits() -> Vec<TaskEdit> {
    let paths = |text: &str| TaskEdit { allowed_paths: Some(vec![text.into()]), ..TaskEdit::default() };
    let mut all = vec![
        TaskEdit::default(),
        paths("docs/**"),
        paths("../outside"),
        paths(""),
        TaskEdit { allowed_paths: Some(Vec::new()), ..TaskEdit::default() },
        TaskEdit { criteria: Some(vec!["another".into()]), ..TaskEdit::default() },
        TaskEdit { criteria: Some(vec!["x".repeat(8_193)]), ..TaskEdit::default() },
    ];
    let tiers = units!(Tier: T0, T1, T2, T3);
    all.extend(tiers.into_iter().map(|tier| TaskEdit { tier: Some(tier), ..TaskEdit::default() }));
    let risks = units!(Risk: Low, Medium, High);
    all.extend(risks.into_iter().map(|risk| TaskEdit { risk: Some(risk), ..TaskEdit::default() }));
    all
}

/// Every wish but the answers to what is open, which `judge::answers` tries.
pub fn wishes() -> Vec<Wish> {
    let tasks = [id("a"), id("b"), id("nobody")];
    let named = || tasks.iter().cloned().map(Some).chain([None]);
    let stranger = HoldKey { subject: Subject::Task(id("nobody")), kind: HoldKind::BlockedTask };
    let answer = |answer, hold: Option<HoldKey>, revision| Wish::Answer { answer, hold, revision };
    let resume = |task, reset_cost| Wish::Resume { task, reset_cost };
    every!(Wish {
        Wish::Answer { .. } => [
            answer(Answer::Retry, None, None),
            answer(Answer::Stop, None, None),
            answer(Answer::Retry, None, Some(u64::MAX)),
            answer(Answer::Drop, Some(stranger), None),
        ],
        Wish::Resume { .. } =>
            named().flat_map(|task| [resume(task.clone(), false), resume(task, true)]).collect::<Vec<_>>(),
        Wish::Pause { .. } => [Wish::Pause { now: false }, Wish::Pause { now: true }],
        Wish::Edit { .. } => tasks
            .iter()
            .flat_map(|task| edits().into_iter().map(|edit| Wish::Edit { task: task.clone(), edit }))
            .collect::<Vec<_>>(),
        Wish::NextGoal => [Wish::NextGoal],
    })
}

/// A wish is refused without a trace, or it is recorded, wakes the loop, and asks for nothing else.
pub fn judge(scene: &Scene, wish: &Wish) {
    let command = Command { by: "cli".into(), wish: wish.clone() };
    let input = Input::Command { stamp: scene.seen.stamp.clone(), command };
    let (after, decision) = step(&scene.state, &scene.policy, &input);
    if let Reason::Refused(_) = decision.reason {
        assert!(decision.events.is_empty() && decision.effects.is_empty(), "{decision:?}");
        return;
    }
    assert!(
        !decision.events.is_empty() && after != scene.state,
        "accepted and nothing happens: {decision:?}"
    );
    assert_eq!(decision.effects, [Effect::Wake]);
}
