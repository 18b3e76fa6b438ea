//! The demonstration's script does what it promises on its own sample repository, on real git.

use std::sync::Arc;

use devloop_core::effect::{Effect, Job, Start};
use devloop_core::report::{CheckOutcome, Outcome};
use devloop_core::review::Verdict;
use devloop_host::backend::demo;
use devloop_host::effects::{EffectConfig, Setting};
use devloop_host::git::{Git, Repo};
use devloop_host::store::{Disk, layout};

use crate::ground::{Ground, review_job};

fn demonstration() -> Ground {
    let dir = tempfile::tempdir().unwrap();
    let root = demo::sample_repo(&dir.path().join("sample")).unwrap();
    let repo = Repo::open(&Git::discover().unwrap(), &root).unwrap().unwrap();
    let armed = layout::require_armed(&root).unwrap();
    let bytes = std::fs::read(armed.config()).unwrap();
    let config = EffectConfig::from(&devloop_wire::config_doc::parse(&bytes).unwrap());
    // The script as it stands, without its pauses.
    let mut script: serde_json::Value = serde_json::from_str(demo::SCRIPT).unwrap();
    for rule in script["rules"].as_array_mut().unwrap() {
        rule["delayMs"] = 0.into();
    }
    std::fs::write(armed.folder().join("demo.json"), script.to_string()).unwrap();
    let setting = Setting::new(repo, armed, Disk::default(), config, Arc::new(|| Ok(())));
    Ground::over(dir, Arc::new(setting))
}

#[test]
fn every_task_of_the_demonstration_takes_its_way() {
    let ground = demonstration();
    let base = ground.head();
    let green = |outcome: Outcome| matches!(outcome, Outcome::Checked(CheckOutcome::Green));
    assert!(green(ground.check(&base, None)), "the checks are green before any work");
    let plan = Job::Plan { base, replaces: None, notes: String::new() };
    let tasks = match ground.report(ground.dispatch("planner", 60_000, plan)).outcome {
        Outcome::Planned { tasks } => tasks,
        other => panic!("{other:?}"),
    };
    // For each task: how often its checks are red, and how often its reviewer sends it back.
    for (name, reds, reworks) in [("usage", 0, 0), ("farewell", 0, 0), ("words", 0, 1), ("language", 3, 0)] {
        let planned = tasks.iter().find(|t| t.id == name).unwrap();
        let allowed: Vec<&str> = planned.allowed_paths.iter().map(String::as_str).collect();
        let contract = ground.contract(name, &allowed);
        let (mut start, mut red, mut sent_back) = (Start::Fresh, 0, 0);
        let head = loop {
            let head = ground.done(&contract, start);
            start = Start::Continue { tip: head.clone() };
            if !green(ground.check(&head, Some(&contract))) {
                red += 1;
                continue;
            }
            let job = review_job(&contract, &head);
            let review = ground.dispatch("reviewer", 60_000, job);
            let Outcome::Reviewed(word) = ground.report(review).outcome else {
                panic!("no review of {name}")
            };
            ground.performer.perform(Effect::RemoveWorktree { dispatch: review });
            if matches!(word.verdict, Verdict::Pass | Verdict::PassWithNotes) {
                break head;
            }
            sent_back += 1;
        };
        assert_eq!((red, sent_back), (reds, reworks), "{name}");
        assert!(matches!(ground.merge(&contract, &head), Outcome::Merged { .. }), "{name}");
    }
    assert!(green(ground.check(&ground.head(), None)));
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
}
