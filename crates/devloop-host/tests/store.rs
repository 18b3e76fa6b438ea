//! Tests of the store through its public interface: files, locks, crashes, full disks. They need no
//! component.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "store/arming.rs"]
mod arming;
#[path = "store/crash.rs"]
mod crash;
#[path = "store/damage.rs"]
mod damage;
#[path = "store/faults.rs"]
mod faults;
#[path = "store/journal.rs"]
mod journal;
#[path = "store/ledger.rs"]
mod ledger;
#[path = "store/limits.rs"]
mod limits;
#[path = "store/locks.rs"]
mod locks;
#[path = "store/recovery.rs"]
mod recovery;
#[path = "store/small.rs"]
mod small;
#[path = "store/support.rs"]
mod support;
#[path = "store/version1.rs"]
mod version1;
#[path = "store/wire.rs"]
mod wire;
