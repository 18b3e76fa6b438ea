//! Temporary folders and files outside the project. Their names say whose they are, so that what a killed
//! loop left is proven ours before it is removed. Nothing else in the system's temporary folder is touched.

use std::io;
use std::path::PathBuf;

use devloop_core::ids::DispatchId;
use tempfile::{NamedTempFile, TempDir};

use crate::effects::run_record;
use crate::files;
use crate::store::Armed;
use crate::store::identity::process_started;

const PREFIX: &str = "devloop-";
const SETTINGS: &str = "devloop-gitconfig-";

/// A new folder for one dispatch; it goes when the value is dropped.
///
/// # Errors
/// The system's temporary folder cannot be written.
pub fn folder(armed: &Armed, dispatch: DispatchId) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(&prefix_of(armed, dispatch)).tempdir()
}

fn prefix_of(armed: &Armed, dispatch: DispatchId) -> String {
    format!("{PREFIX}{}-", run_record::marker(armed, dispatch))
}

/// Removes every folder of a dispatch that is not in flight. What cannot be removed stays.
pub fn remove(armed: &Armed, dispatch: DispatchId) {
    let prefix = prefix_of(armed, dispatch);
    for path in found(|name| name.starts_with(&prefix)) {
        drop(files::remove_tree(&path));
    }
}

/// The dispatches of this project that have folders there.
pub fn left(armed: &Armed) -> Vec<DispatchId> {
    let project = format!("{PREFIX}{}", run_record::marker_of_project(armed));
    let of = |path: PathBuf| {
        let name = path.file_name()?.to_str()?.strip_prefix(&project)?.split('-').next()?.to_owned();
        DispatchId::parse(&name).ok()
    };
    found(|name| name.starts_with(&project)).into_iter().filter_map(of).collect()
}

/// Real folders of this user with such a name.
fn found(is_wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let dir = std::env::temp_dir();
    let names = files::list_names(&dir).unwrap_or_default();
    let wanted = names.into_iter().filter(|name| name.to_str().is_some_and(&is_wanted));
    wanted.map(|name| dir.join(name)).filter(|path| files::is_own(path, true)).collect()
}

/// A new file for the settings that git is given, named by the process that needs it.
///
/// # Errors
/// The system's temporary folder cannot be written.
pub fn settings_file() -> io::Result<NamedTempFile> {
    let pid = std::process::id();
    let started = process_started(pid).unwrap_or(0);
    tempfile::Builder::new().prefix(&format!("{SETTINGS}{pid}-{started}-")).tempfile()
}

/// Removes settings of processes that are gone.
pub fn sweep_settings() {
    let dir = std::env::temp_dir();
    for name in files::list_names(&dir).unwrap_or_default() {
        let owner = name.to_str().and_then(|name| name.strip_prefix(SETTINGS)).and_then(|rest| {
            let mut words = rest.split('-');
            Some((words.next()?.parse::<u32>().ok()?, words.next()?.parse::<u64>().ok()?))
        });
        let path = dir.join(&name);
        if owner.is_some_and(|(pid, started)| process_started(pid) != Some(started))
            && files::is_own(&path, false)
        {
            drop(files::remove_file(&path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Disk, layout};

    #[test]
    fn only_folders_of_this_project_and_dispatch_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let arm = |name: &str| {
            let root = home.path().join(name);
            std::fs::create_dir(&root).unwrap();
            layout::arm(&Disk::default(), &root, "# Goal\n").unwrap()
        };
        let (mine, other) = (arm("mine"), arm("other"));
        let kept = [folder(&mine, DispatchId(31)).unwrap(), folder(&other, DispatchId(3)).unwrap()];
        let left_behind = folder(&mine, DispatchId(3)).unwrap().keep();
        let mut dispatches = left(&mine);
        dispatches.sort();
        assert_eq!(dispatches, [DispatchId(3), DispatchId(31)]);
        remove(&mine, DispatchId(3));
        assert!(!left_behind.exists());
        assert!(kept.iter().all(|folder| folder.path().exists()));
    }

    #[test]
    fn settings_of_a_living_process_stay_and_those_of_a_dead_one_go() {
        let mine = settings_file().unwrap();
        let dead = tempfile::Builder::new().prefix("devloop-gitconfig-1-1-").tempfile().unwrap();
        let odd = tempfile::Builder::new().prefix("devloop-gitconfig-odd").tempfile().unwrap();
        sweep_settings();
        assert_eq!([mine.path(), dead.path(), odd.path()].map(std::path::Path::exists), [true, false, true]);
    }
}
