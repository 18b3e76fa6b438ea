//! Owns the conversions of operators' commands. It must not decide.

#[doc(hidden)]
#[macro_export]
macro_rules! command_shapes {
    ($record:ident $variant:ident $proof:ident $wit:ident) => {
        $record!($wit, command::TaskEdit { allowed_paths, criteria, tier, risk });
        $variant!($wit, command::Wish {
            Answer { answer, hold, revision } as WishAnswer, Resume { task, reset_cost } as WishResume,
            Pause { now }, Edit { task, edit } as WishEdit, NextGoal,
        });
        $record!($wit, command::Command { by, wish });
    };
}
