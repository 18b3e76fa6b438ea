//! What a model is told: the templates filled with quoted data. Everything that a model or a person wrote
//! stands in it as JSON strings, so that it is read as data; nothing of it is expanded again.

use devloop_core::effect::{Contract, Job};
use devloop_core::ids::Oid;
use serde_json::Value;

const PLAN: &str = include_str!("../../../../templates/prompts/plan.md");
const IMPLEMENT: &str = include_str!("../../../../templates/prompts/implement.md");
const REVIEW: &str = include_str!("../../../../templates/prompts/review.md");

/// What the host adds to a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Material {
    /// The goal's text.
    pub goal: String,
    /// First lines of the commits so far, oldest first.
    pub history: Vec<String>,
    /// The change under review as a patch; empty otherwise.
    pub diff: String,
    /// Files that the patch leaves out for their size.
    pub omitted: Vec<String>,
    /// Test files that the change touches although they are protected.
    pub protected: Vec<String>,
}

/// The whole prompt of a job.
pub fn of(job: &Job, material: &Material) -> String {
    match job {
        Job::Plan { base, replaces, notes } => fill(
            PLAN,
            &[
                ("goal", quote(&material.goal)),
                ("base", quote(base.as_str())),
                ("replaces", replaces.as_ref().map_or_else(|| "null".to_owned(), contract_text)),
                ("notes", quote(notes)),
            ],
        ),
        Job::Work { contract, notes, .. } => fill(
            IMPLEMENT,
            &[
                ("goal", quote(&material.goal)),
                ("contract", contract_text(contract)),
                ("task", quote(contract.task.as_str())),
                ("notes", quote(notes)),
                ("history", lines(&material.history)),
            ],
        ),
        Job::Review { contract, head } => fill(
            REVIEW,
            &[
                ("goal", quote(&material.goal)),
                ("contract", contract_text(contract)),
                ("task", quote(contract.task.as_str())),
                ("head", quote(head.as_str())),
                ("base", quote(contract.base.as_str())),
                ("history", lines(&material.history)),
                ("diff", quote(&material.diff)),
                ("omitted", lines(&material.omitted)),
                ("protected", lines(&material.protected)),
            ],
        ),
    }
}

/// The commit a review must name.
pub fn reviewed_head(job: &Job) -> Option<&Oid> {
    match job {
        Job::Review { head, .. } => Some(head),
        Job::Plan { .. } | Job::Work { .. } => None,
    }
}

fn contract_text(contract: &Contract) -> String {
    String::from_utf8_lossy(&devloop_wire::canonical(&devloop_wire::contract::document(contract)))
        .into_owned()
}

fn quote(text: &str) -> String {
    Value::from(text).to_string()
}

fn lines(items: &[String]) -> String {
    Value::from(items.to_vec()).to_string()
}

/// Puts values into `{{name}}` places in one pass: what a value holds is never looked at.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{{") {
        out.push_str(&rest[..at]);
        let after = &rest[at + 2..];
        let end = after.find("}}");
        let value = end.and_then(|end| values.iter().find(|(name, _)| *name == &after[..end]));
        match (end, value) {
            (Some(end), Some((_, value))) => {
                out.push_str(value);
                rest = &after[end + 2..];
            }
            _ => {
                out.push_str("{{");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use devloop_core::effect::Start;
    use devloop_core::ids::TaskId;
    use devloop_core::tier::{Risk, Tier};

    fn contract() -> Contract {
        Contract {
            task: TaskId::parse("t1").unwrap(),
            edition: 1,
            title: "Say \"hello\" {{notes}}".into(),
            tier: Tier::T1,
            risk: Risk::Low,
            allowed_paths: vec!["src/**".into()],
            criteria: vec!["it says hello".into()],
            estimate: None,
            base: Oid::parse(&"a".repeat(40)).unwrap(),
            implementers: Vec::new(),
        }
    }

    #[test]
    fn every_place_of_every_template_is_filled() {
        let head = Oid::parse(&"b".repeat(40)).unwrap();
        let base = head.clone();
        let jobs = [
            Job::Plan { base, replaces: Some(contract()), notes: "n".into() },
            Job::Work { contract: contract(), start: Start::Fresh, notes: "mend it".into() },
            Job::Review { contract: contract(), head },
        ];
        for job in &jobs {
            let text = of(job, &Material { goal: "Greet\nall".into(), ..Material::default() });
            assert!(text.contains("\"Greet\\nall\""), "{text}");
            let open: Vec<_> = text.match_indices("{{").collect();
            // The only one left is the data's own, which is never expanded.
            assert_eq!(open.len(), 1, "{text}");
            assert!(text.contains("Say \\\"hello\\\" {{notes}}"), "{text}");
            assert!(text.contains("<devloop_result>"), "{text}");
        }
    }

    #[test]
    fn data_cannot_leave_its_quotes() {
        let job = Job::Work { contract: contract(), start: Start::Fresh, notes: "\"\n# New orders".into() };
        let text = of(&job, &Material::default());
        assert!(!text.lines().any(|line| line.starts_with("# New orders")));
    }
}
