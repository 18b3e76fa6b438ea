//! Arming, roots and the names of files: an unarmed or escaping folder is never written to.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use devloop_host::error::{ErrorKind, HostError};
use devloop_host::store::*;

use super::support::{Project, tree};

#[test]
fn only_a_real_folder_with_a_regular_goal_is_armed() {
    let temp = tempfile::tempdir().unwrap();
    let elsewhere = temp.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    fs::write(elsewhere.join("GOAL.md"), "x").unwrap();
    let make = |name: &str| {
        let root = temp.path().join(name);
        fs::create_dir(&root).unwrap();
        root
    };
    let unarmed = make("unarmed");
    let bare = make("bare");
    fs::create_dir(bare.join(".devloop")).unwrap();
    let linked = make("linked");
    symlink(&elsewhere, linked.join(".devloop")).unwrap();
    let file = make("file");
    fs::write(file.join(".devloop"), "x").unwrap();
    let goal_link = make("goal_link");
    fs::create_dir(goal_link.join(".devloop")).unwrap();
    symlink(elsewhere.join("GOAL.md"), goal_link.join(".devloop/GOAL.md")).unwrap();
    let goal_folder = make("goal_folder");
    fs::create_dir_all(goal_folder.join(".devloop/GOAL.md")).unwrap();

    let before = tree(temp.path());
    let check = |root: &std::path::Path, expect: &str| {
        let said = layout::require_armed(root).unwrap_err();
        assert_eq!(said.kind(), ErrorKind::Config);
        assert!(said.to_string().contains(expect), "{said}");
    };
    check(&unarmed, "it has no .devloop folder");
    check(&bare, "it has no .devloop/GOAL.md");
    check(&linked, ".devloop is a symlink");
    check(&file, ".devloop is not a folder");
    check(&goal_link, "GOAL.md is a symlink");
    check(&goal_folder, "GOAL.md is a folder");
    assert!(matches!(layout::inspect(&bare).unwrap(), Arming::Bare { .. }));
    assert!(matches!(layout::inspect(&unarmed).unwrap(), Arming::Unarmed { .. }));
    assert_eq!(tree(temp.path()), before, "looking writes nothing");

    let host = HostError::from(layout::require_armed(&bare).unwrap_err());
    let root = fs::canonicalize(&bare).unwrap().to_string_lossy().into_owned();
    assert_eq!(host.hints(), [vec!["devloop".to_owned(), "init".to_owned(), root]]);
}

#[test]
fn arming_creates_a_private_goal_once() {
    let project = Project::new();
    let goal = project.armed.goal();
    assert_eq!(fs::metadata(&goal).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(project.armed.folder()).unwrap().permissions().mode() & 0o777, 0o700);
    let again = layout::arm(&Disk::default(), project.armed.root(), "other").unwrap_err();
    assert!(again.to_string().contains("cannot create"), "{again}");
    assert_eq!(fs::read(&goal).unwrap(), b"# Goal\n");
    project.armed.recheck().unwrap();
    fs::remove_file(&goal).unwrap();
    assert!(project.armed.recheck().is_err());
}

#[test]
fn a_goal_is_read_up_to_its_limit() {
    let project = Project::new();
    let disk = Disk::default();
    let limit = layout::GOAL_LIMIT_BYTES as usize;
    fs::write(project.armed.goal(), vec![b'x'; limit]).unwrap();
    assert_eq!(project.armed.read_goal(&disk).unwrap().unwrap().len(), limit);
    fs::write(project.armed.goal(), vec![b'x'; limit + 1]).unwrap();
    let said = project.armed.read_goal(&disk).unwrap_err();
    assert!(said.to_string().ends_with("GOAL.md is larger than 65536 bytes"), "{said}");
    fs::remove_file(project.armed.goal()).unwrap();
    assert_eq!(project.armed.read_goal(&disk).unwrap(), None);
}

#[test]
fn a_command_in_a_subfolder_or_worktree_means_the_project() {
    let project = Project::new();
    let root = project.armed.root().to_path_buf();
    fs::create_dir(root.join(".git")).unwrap();
    let worktree = root.join(".devloop/worktrees/d1");
    fs::create_dir_all(worktree.join("src")).unwrap();
    fs::write(worktree.join(".git"), "gitdir: x").unwrap();
    fs::create_dir_all(root.join("src/deep")).unwrap();
    let link = project.temp.path().join("link");
    symlink(&root, &link).unwrap();
    for start in [root.clone(), root.join("src/deep"), worktree.join("src"), link.join("src")] {
        assert_eq!(layout::find_root(&start).unwrap(), root, "from {}", start.display());
    }
    assert_eq!(layout::require_armed(&link).unwrap(), project.armed);
}

#[test]
fn the_users_folder_follows_dsh_home_then_dsh_then_the_state_directory() {
    let home = tempfile::tempdir().unwrap();
    let home_text = home.path().to_str().unwrap().to_owned();
    let from = |pairs: &[(&str, &str)]| {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        UserFolder::from_env(move |name| pairs.iter().find(|(k, _)| k == name).map(|(_, v)| v.clone()))
    };
    let folder = |pairs: &[(&str, &str)]| from(pairs).map(|user| user.folder().to_path_buf());
    assert_eq!(folder(&[]), None);
    assert_eq!(folder(&[("DSH_HOME", "/dsh"), ("HOME", "/h")]), Some("/dsh/devloop".into()));
    assert_eq!(folder(&[("DSH_HOME", "dsh"), ("HOME", "/h")]), None, "one cap for each folder");
    assert_eq!(folder(&[("HOME", "h")]), None);
    assert_eq!(folder(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")]), Some("/s/devloop".into()));
    assert_eq!(folder(&[("HOME", "/h"), ("DSH_HOME", "")]), Some("/h/.local/state/devloop".into()));
    fs::create_dir(home.path().join(".dsh")).unwrap();
    let expect = home.path().join(".dsh/devloop");
    assert_eq!(folder(&[("HOME", &home_text), ("XDG_STATE_HOME", "/s")]), Some(expect));
}
