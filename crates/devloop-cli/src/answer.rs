//! `devloop answer`: answers an open question. It must not know which answers a question takes.

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use devloop_core::answer::Answer;
use devloop_core::command::Wish;
use devloop_core::hold::HoldKey;
use devloop_host::error::{ErrorKind, HostError};

use crate::cli::{Form, Outcome};
use crate::place::Root;
use crate::wish;

/// Answers an open question
#[derive(Clone, Debug, Args)]
pub struct Answering {
    /// The answer, as `devloop status` offers it
    #[arg(value_parser = words())]
    pub answer: Answer,
    #[command(flatten)]
    pub root: Root,
    /// With `retry`: start from the current target, without what was done
    #[arg(long)]
    pub fresh: bool,
    /// Which question; may be left out when exactly one is open
    #[arg(long, value_name = "KEY", value_parser = HoldKey::parse)]
    pub hold: Option<HoldKey>,
    /// The revision at which the question opened, to answer the one that was read
    #[arg(long, value_name = "N")]
    pub revision: Option<u64>,
    #[command(flatten)]
    pub form: Form,
}

/// The words that answer; a fresh retry is `retry --fresh`.
fn words() -> impl TypedValueParser<Value = Answer> {
    let plain = Answer::ALL.iter().filter(|answer| **answer != Answer::RetryFresh);
    PossibleValuesParser::new(plain.map(|answer| answer.word())).try_map(|word| {
        Answer::ALL.into_iter().find(|answer| answer.word() == word).ok_or("an answer of DevLoop")
    })
}

impl Answering {
    /// The wish that was typed.
    ///
    /// # Errors
    /// User when `--fresh` stands beside another answer than `retry`.
    pub fn wish(&self) -> Result<Wish, HostError> {
        let answer = match (self.answer, self.fresh) {
            (Answer::Retry, true) => Answer::RetryFresh,
            (other, false) => other,
            (other, true) => {
                let what = format!("--fresh belongs to `retry`, not to `{}`", other.word());
                let hint = ["devloop", "answer", "--help"];
                return Err(HostError::new(ErrorKind::User, what).hint(hint));
            }
        };
        Ok(Wish::Answer { answer, hold: self.hold.clone(), revision: self.revision })
    }
}

/// Performs the verb.
///
/// # Errors
/// When the project cannot be worked with.
pub fn perform(verb: Answering) -> Outcome {
    let asked = verb.wish()?;
    let mut desk = verb.root.desk()?;
    let report = wish::commit(&mut desk, asked)?;
    // `stop` is meant to leave the loop where it is.
    wish::tell(&desk, &report, verb.form, verb.answer != Answer::Stop)
}
