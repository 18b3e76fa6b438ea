//! Where programs are installed, and what one must be able to read to start when the rest of the disk is
//! closed to it. Whether it is closed is not decided here.

use std::path::{Path, PathBuf};

use super::Surroundings;
use crate::files;

/// Where a program is: at a path of its own, or on the search path.
pub(super) fn find(name: &Path, around: &Surroundings) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return Some(name.to_path_buf()).filter(|path| files::is_program(path));
    }
    search_path(around).map(|folder| folder.join(name)).find(|path| files::is_program(path))
}

/// What is installed with the program of a run: its folder, and the packages of npm that it stands among. A
/// program that lies in the home folder itself is alone.
pub(super) fn with_program(path: &Path, around: &Surroundings) -> Vec<PathBuf> {
    let Ok(real) = files::canonical(path) else { return Vec::new() };
    let folder = real.parent().filter(|folder| is_openable(folder, around));
    let place = folder.map_or_else(|| real.clone(), Path::to_path_buf);
    [Some(place), packages(&real)].into_iter().flatten().collect()
}

/// The folders of the search path, and what their links stand for: version managers and npm put a link there
/// and the program elsewhere, and a link that leads nowhere makes the search go on to another version. Of a
/// link's place only the program and the packages of npm around it are named.
pub fn on_search_path(around: &Surroundings) -> Vec<PathBuf> {
    let folders: Vec<PathBuf> = search_path(around).filter(|folder| is_openable(folder, around)).collect();
    let mut found: Vec<PathBuf> = folders.iter().flat_map(|folder| files::list_links(folder)).collect();
    found.retain(|target| files::is_program(target));
    found = found.into_iter().map(|target| packages(&target).unwrap_or(target)).collect();
    found.extend(folders);
    found.sort();
    found.dedup();
    found
}

fn search_path(around: &Surroundings) -> impl Iterator<Item = PathBuf> {
    let paths = around.get("PATH").unwrap_or_default();
    std::env::split_paths(paths).collect::<Vec<_>>().into_iter()
}

/// Whether a folder may be opened because a program lies there: the home folder, and whatever holds it, is
/// not.
fn is_openable(folder: &Path, around: &Surroundings) -> bool {
    let home = around.get("HOME").map(PathBuf::from);
    let real = |path: &Path| files::canonical(path).unwrap_or_else(|_| path.to_path_buf());
    let is_above = |home: PathBuf| real(&home).starts_with(real(folder));
    folder.is_absolute() && folder.parent().is_some() && !home.is_some_and(is_above)
}

/// A package of npm reads what it depends on, wherever in the tree of packages that lies.
fn packages(real: &Path) -> Option<PathBuf> {
    let is_packages = |path: &&Path| path.file_name().is_some_and(|name| name == "node_modules");
    real.ancestors().filter(is_packages).last().map(Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    struct Home(tempfile::TempDir);

    impl Home {
        fn new(programs: &[&str], links: &[(&str, &str)]) -> Home {
            let home = Home(tempfile::tempdir().unwrap());
            for program in programs {
                let path = home.path(program);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "#!/bin/sh\n").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            for (link, target) in links {
                fs::create_dir_all(home.path(link).parent().unwrap()).unwrap();
                symlink(target, home.path(link)).unwrap();
            }
            home
        }

        fn path(&self, below: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(below)
        }

        fn around(&self, search: &[&str]) -> Surroundings {
            let folders = std::env::join_paths(search.iter().map(|below| self.path(below))).unwrap();
            Surroundings::of([("HOME".into(), self.path("home").into()), ("PATH".into(), folders)])
        }

        fn named(&self, found: Vec<PathBuf>) -> Vec<String> {
            let below = |path: PathBuf| path.strip_prefix(self.path("")).unwrap().display().to_string();
            found.into_iter().map(below).collect()
        }
    }

    /// `node` of a project was a link to its package, which was closed, and the search went on to an older
    /// node of the system.
    #[test]
    fn a_link_on_the_search_path_opens_the_program_that_it_stands_for() {
        let programs = ["p/node_modules/node/bin/node", "home/.local/share/tool/1.2/tool", "home/keys/own"];
        let links = [
            ("p/node_modules/.bin/node", "../node/bin/node"),
            ("home/.local/bin/tool", "../share/tool/1.2/tool"),
            ("home/.local/bin/own", "../../keys/own"),
            ("home/.local/bin/twice", "own"),
            ("home/.local/bin/gone", "../nowhere"),
            ("home/.local/bin/keys", "../../keys"),
        ];
        let home = Home::new(&programs, &links);
        let around = home.around(&["p/node_modules/.bin", "home/.local/bin"]);
        let expected = [
            "home/.local/bin",
            "home/.local/share/tool/1.2/tool",
            "home/keys/own",
            "p/node_modules",
            "p/node_modules/.bin",
        ];
        assert_eq!(home.named(on_search_path(&around)), expected, "the folder of keys stays closed");
    }

    #[test]
    fn no_search_path_and_no_program_opens_the_home_folder() {
        let home = Home::new(&["home/run.sh", "home/bin/run.sh"], &[("linked", "home")]);
        let around = home.around(&["home", "", "linked", "home/bin"]);
        assert_eq!(home.named(on_search_path(&around)), ["home/bin"]);
        assert_eq!(home.named(with_program(&home.path("home/run.sh"), &around)), ["home/run.sh"]);
        assert_eq!(home.named(with_program(&home.path("linked/run.sh"), &around)), ["home/run.sh"]);
        assert_eq!(home.named(with_program(&home.path("home/bin/run.sh"), &around)), ["home/bin"]);
    }

    #[test]
    fn a_package_of_npm_opens_the_outermost_tree_of_packages() {
        let inner = "home/lib/node_modules/a/node_modules/b/cli.js";
        let home = Home::new(&[inner], &[("home/bin/b", "../lib/node_modules/a/node_modules/b/cli.js")]);
        let around = home.around(&["home/bin"]);
        assert_eq!(home.named(on_search_path(&around)), ["home/bin", "home/lib/node_modules"]);
        let found = find(Path::new("b"), &around).unwrap();
        let beside = ["home/lib/node_modules/a/node_modules/b", "home/lib/node_modules"];
        assert_eq!(home.named(with_program(&found, &around)), beside);
    }
}
