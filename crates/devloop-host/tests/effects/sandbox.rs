//! A dispatch that is confined: it works as any other, and what it reaches for outside is refused by the
//! kernel, not noticed afterwards.

use devloop_core::effect::Start;
use devloop_core::report::Outcome;
use devloop_host::process::confine;
use devloop_wire::config_doc::{Sandbox, SandboxMode};
use serde_json::json;

use crate::ground::{Ground, writes};

fn confined(rule: serde_json::Value, mode: SandboxMode) -> Ground {
    Ground::with(&json!([rule]), |config| {
        config.sandbox = Sandbox { mode, read: Vec::new(), write: Vec::new() };
    })
}

#[test]
fn a_confined_worker_works_in_its_worktree_and_cannot_touch_the_operators_checkout() {
    if !confine::is_available() {
        eprintln!("skipped: this kernel has no Landlock of version 3");
        return;
    }
    for mode in [SandboxMode::Auto, SandboxMode::Landlock] {
        let mut rule = writes("t", &[("src/b", "x\n")]);
        rule["process"] = true.into();
        let ground = confined(rule.clone(), mode);
        let contract = ground.contract("t", &["src"]);
        let (work, _) = ground.work(&contract, Start::Fresh);
        let committed = ground.commit(work, &contract);
        assert!(matches!(committed, Outcome::Committed { .. }), "{committed:?}");

        rule["escape"] = json!([{ "path": "README.md", "append": "mine too\n" }]);
        let ground = confined(rule, mode);
        let contract = ground.contract("t", &["src"]);
        ground.work(&contract, Start::Fresh);
        assert_eq!(ground.git(&["status", "--porcelain"]), "", "nothing was written there");
    }
}
