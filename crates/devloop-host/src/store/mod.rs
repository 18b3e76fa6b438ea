//! Owns every durable file of a project and of the user's devloop folder; it decides nothing and knows no
//! task.
//!
//! Order of authority: `EVENTS.jsonl` (the journal) over `STATE.json` (a projection of it) over everything
//! else. Order of locks: OWNER, then LOCK, then LEDGER; the guards of [`locks`] make another order a type
//! error.

pub mod archive;
pub mod commit;
pub mod disk;
pub mod error;
pub mod history;
pub mod identity;
pub mod journal;
pub mod layout;
pub mod ledger;
pub mod line;
pub mod locks;
pub mod owner_record;
pub mod points;
pub mod recover;
pub mod reserve;
pub mod small;
pub mod state_file;
pub mod trace;
pub mod wire_format;

pub use commit::{Committed, Store};
pub use disk::{Disk, Medium, Verdict};
pub use error::{StoreError, StoreResult};
pub use identity::Identity;
pub use journal::{Changes, Journal};
pub use layout::{Armed, Arming, UserFolder};
pub use line::{Line, LineFault, LineFormat, LineHead, Segment, Tip};
pub use locks::{LedgerGuard, LockGuard, Locks, OwnerGuard, Wait};
pub use owner_record::OwnerRecord;
pub use points::Point;
pub use recover::{Base, Legacy, Loaded, Recovered};
pub use state_file::{StateFault, StateFile, StateFormat, StateHead};
