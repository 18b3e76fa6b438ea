//! Owns the conversions of what is spoken about the alphabet: errors, and the steps of a recorded run. It
//! must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! run_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $variant!($wit, run::FaultKind { Legacy, Newer, Torn, Defect });
        $record!($wit, run::Fault { kind, field, rule });
        $variant!($wit, run::CoreError { State(a), Policy(a), Value(a), Story(a) });
        $variant!($wit, run::Step { Decide(a), Again, Line(a), Policy(a) });
        $record!($wit, run::Replayed { decision, revision, digest });
    };
}
