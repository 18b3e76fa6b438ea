//! Owns the conversions of questions. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! question_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $record!($wit, question::Offer { answer, text, spends, discards, recommended });
        $record!($wit, question::Question { key, revision, text, evidence, answers, by_hand, acknowledged });
    };
}
