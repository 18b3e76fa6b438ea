//! Owns the space that is set aside for a full disk, and how much is free; what a full disk means the core
//! decides.

use std::fs;
use std::io;
use std::path::Path;

use super::disk::{Disk, Keep, Point, Replace};
use super::error::{StoreError, StoreResult};
use super::layout::Armed;

/// Size of the reserve file in bytes: room for a journal group, a state and a progress page.
pub const RESERVE_BYTES: usize = 1024 * 1024;

/// Free bytes for an ordinary user on the file system of `path`. `None` where the system does not tell.
pub fn free_bytes(path: &Path) -> StoreResult<Option<u64>> {
    #[cfg(unix)]
    {
        let stat = rustix::fs::statvfs(path).map_err(|e| StoreError::io("measure", path)(e.into()))?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        Ok(None)
    }
}

/// Fills the reserve file unless it is full already. A disk too full for it is an error to show, not to
/// stop for.
pub fn fill(disk: &Disk, armed: &Armed) -> StoreResult<()> {
    let path = armed.reserve();
    if fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() == RESERVE_BYTES as u64) {
        return Ok(());
    }
    // Real bytes, not a sparse length: only they occupy space. They differ, so that no file system packs
    // them away.
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    let bytes: Vec<u8> = (0..RESERVE_BYTES / 8)
        .flat_map(|_| {
            noise ^= noise << 13;
            noise ^= noise >> 7;
            noise ^= noise << 17;
            noise.to_le_bytes()
        })
        .collect();
    let how = Replace {
        write: Point::ReserveWrite,
        rename: Point::ReserveWrite,
        keep: Keep::Synced(Point::ReserveWrite),
    };
    disk.replace(&path, &bytes, how)
}

/// Gives the space back, to be called when the disk is full; true when there was something to give.
pub fn release(armed: &Armed) -> StoreResult<bool> {
    let path = armed.reserve();
    match fs::remove_file(&path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(StoreError::io("remove", path)(e)),
    }
}
