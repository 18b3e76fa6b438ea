//! The words an operator can answer with.

data! {
    /// An answer to a question. Only those offered in the very state are accepted.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Answer {
        /// Work again from the last host commit.
        Retry,
        /// Work again from the current target, without what was done.
        RetryFresh,
        /// Review the commit that is there.
        Review,
        /// Done, without a merge.
        Accept,
        /// Merge exactly this head.
        Approve,
        /// Give the task up; its branch is kept.
        Drop,
        /// Leave it held; it is listed last and not notified again.
        Stop,
        /// One more limit's worth, or leave to do it.
        Allow,
        /// Go on with what was found.
        GoOn,
        /// Keep the plan for the new goal text.
        Continue,
        /// Plan anew.
        Replan,
        /// Make a branch for this goal and merge there.
        Branch,
        /// Open the route again.
        Open,
    }
}

impl Answer {
    /// Every answer.
    pub const ALL: [Answer; 13] = [
        Answer::Retry,
        Answer::RetryFresh,
        Answer::Review,
        Answer::Accept,
        Answer::Approve,
        Answer::Drop,
        Answer::Stop,
        Answer::Allow,
        Answer::GoOn,
        Answer::Continue,
        Answer::Replan,
        Answer::Branch,
        Answer::Open,
    ];

    /// The word an operator types; a fresh retry is `retry --fresh`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Answer::Retry => "retry",
            Answer::RetryFresh => "retry --fresh",
            Answer::Review => "review",
            Answer::Accept => "accept",
            Answer::Approve => "approve",
            Answer::Drop => "drop",
            Answer::Stop => "stop",
            Answer::Allow => "allow",
            Answer::GoOn => "go-on",
            Answer::Continue => "continue",
            Answer::Replan => "replan",
            Answer::Branch => "branch",
            Answer::Open => "open",
        }
    }
}
