//! Owns the conversions of decisions and what they are made on. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! decision_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $variant!($wit, decide::Input { Observation(a), Command { stamp, command } as InputCommand });
        $record!($wit, decide::Decision { events, effects, reason });
    };
}
