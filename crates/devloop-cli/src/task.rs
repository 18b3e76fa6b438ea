//! `devloop task edit`: changes a task that nobody works on. It must not know which edits are allowed.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use devloop_core::command::{TaskEdit, Wish};
use devloop_core::ids::TaskId;
use devloop_core::tier::{Risk, Tier};

use crate::cli::{Form, Outcome};
use crate::place::Root;
use crate::wish;

const TIERS: [(&str, Tier); 4] = [("T0", Tier::T0), ("T1", Tier::T1), ("T2", Tier::T2), ("T3", Tier::T3)];
const RISKS: [(&str, Risk); 3] = [("low", Risk::Low), ("medium", Risk::Medium), ("high", Risk::High)];

/// Changes a task that nobody works on
#[derive(Clone, Debug, Args)]
pub struct TaskVerb {
    #[command(subcommand)]
    pub what: What,
}

#[derive(Clone, Debug, Subcommand)]
pub enum What {
    /// Changes paths, criteria, tier or risk
    Edit(Edit),
}

/// Changes paths, criteria, tier or risk
#[derive(Clone, Debug, Args)]
pub struct Edit {
    /// The task
    #[arg(value_parser = TaskId::parse)]
    pub id: TaskId,
    #[command(flatten)]
    pub root: Root,
    /// The paths it may change, instead of those it has
    #[arg(long, value_name = "GLOB,...", value_delimiter = ',')]
    pub paths: Vec<String>,
    /// What must be true when it is done, instead of what it has; may be given again
    #[arg(long, value_name = "TEXT")]
    pub criteria: Vec<String>,
    /// How demanding it is
    #[arg(long, value_parser = one_of(TIERS))]
    pub tier: Option<Tier>,
    /// What a mistake would cost
    #[arg(long, value_parser = one_of(RISKS))]
    pub risk: Option<Risk>,
    #[command(flatten)]
    pub form: Form,
}

fn one_of<T: Copy + Send + Sync + 'static, const N: usize>(
    words: [(&'static str, T); N],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words.map(|(word, _)| word)).try_map(move |word| {
        words.iter().find(|(known, _)| *known == word).map(|(_, value)| *value).ok_or("one of the words")
    })
}

impl TaskVerb {
    /// Whether JSON is asked for.
    #[must_use]
    pub fn wants_json(&self) -> bool {
        match &self.what {
            What::Edit(edit) => edit.form.json,
        }
    }
}

/// Performs the verb.
///
/// # Errors
/// When the project cannot be worked with.
pub fn perform(verb: TaskVerb) -> Outcome {
    let What::Edit(asked) = verb.what;
    let mut desk = asked.root.desk()?;
    let given = |list: Vec<String>| Some(list).filter(|list| !list.is_empty());
    let edit = TaskEdit {
        allowed_paths: given(asked.paths),
        criteria: given(asked.criteria),
        tier: asked.tier,
        risk: asked.risk,
    };
    let report = wish::commit(&mut desk, Wish::Edit { task: asked.id, edit })?;
    wish::tell(&desk, &report, asked.form, false)
}
