//! How demanding and how dangerous a task is.

data! {
    /// T0 mechanical, T1 worker, T2 senior, T3 lead.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Tier {
        /// Mechanical work.
        T0,
        /// Ordinary work.
        T1,
        /// Work that needs experience.
        T2,
        /// Planning and review.
        T3,
    }

    /// What a mistake would cost.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Risk {
        /// Easily undone.
        Low,
        /// Needs care.
        Medium,
        /// A person approves before the merge.
        High,
    }
}
