//! Where the login of a command line comes from: a variable, the command line's own file, or DSH's list of
//! keys. Exactly one is handed on; it is never printed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};

use saphyr::{LoadableYamlNode, Yaml};

use crate::files::{self, FileProblem};

const LOGIN_MAX_BYTES: u64 = 1024 * 1024;
/// DSH's list of keys, below its folder.
const DSH_KEYS: &str = ".credentials.yaml";

/// Where a login may lie.
pub(super) struct Login {
    /// Variables that carry one, in order of preference: the name it is known by, and the name that the
    /// program reads.
    pub vars: &'static [(&'static str, &'static str)],
    /// The program's own file.
    pub file: Option<LoginFile>,
}

/// A login file of a program.
pub(super) struct LoginFile {
    /// The variable that moves the program's folder.
    pub folder_var: &'static str,
    /// Its folder below the home folder.
    pub folder: &'static str,
    /// Its name in that folder, and in the private one.
    pub name: &'static str,
}

/// A login that was found.
#[derive(PartialEq, Eq)]
pub(super) enum Key {
    /// A variable for the program.
    Var(&'static str, OsString),
    /// A file for the program's private folder.
    File(&'static str, Vec<u8>),
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Var(name, _) => write!(f, "Var({name})"),
            Key::File(name, _) => write!(f, "File({name})"),
        }
    }
}

/// The variables of the user's own session, as a run may draw from them.
#[derive(Clone, Default)]
pub struct Surroundings(BTreeMap<OsString, OsString>);

impl fmt::Debug for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Surroundings({} variables)", self.0.len())
    }
}

impl Surroundings {
    /// Those of this process.
    pub fn of_process() -> Surroundings {
        Surroundings::of(std::env::vars_os())
    }

    /// The ones given.
    pub fn of(vars: impl IntoIterator<Item = (OsString, OsString)>) -> Surroundings {
        Surroundings(vars.into_iter().collect())
    }

    /// One that is set and not empty.
    pub fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (OsString, OsString)> + '_ {
        self.0.iter().map(|(name, value)| (name.clone(), value.clone()))
    }

    fn folder(&self, var: &str, below_home: &str) -> Option<PathBuf> {
        let named = self.get(var).map(PathBuf::from).filter(|path| path.is_absolute());
        named.or_else(|| Some(Path::new(self.get("HOME")?).join(below_home)))
    }

    /// DSH's folder.
    pub fn dsh_home(&self) -> Option<PathBuf> {
        self.folder("DSH_HOME", ".dsh")
    }
}

/// The login of a program; `None` when there is none anywhere.
///
/// # Errors
/// A login file that is there and cannot be read, in a sentence without its content.
pub(super) fn find(login: &Login, around: &Surroundings) -> Result<Option<Key>, String> {
    if let Some((known, read)) = login.vars.iter().find(|(known, _)| around.get(known).is_some()) {
        return Ok(around.get(known).map(|value| Key::Var(read, value.to_owned())));
    }
    if let Some(file) = &login.file
        && let Some(folder) = around.folder(file.folder_var, file.folder)
        && let Some(bytes) = read(&folder.join(file.name))?
    {
        return Ok(Some(Key::File(file.name, bytes)));
    }
    let Some(path) = around.dsh_home().map(|home| home.join(DSH_KEYS)) else { return Ok(None) };
    let Some(bytes) = read(&path)? else { return Ok(None) };
    let keys = dsh_keys(&bytes).ok_or_else(|| format!("{} is no list of keys", path.display()))?;
    let found = login.vars.iter().find_map(|(known, read)| Some((read, keys.get(*known)?)));
    Ok(found.map(|(read, value)| Key::Var(read, value.into())))
}

/// A variable that the operator names and that stands only in DSH's list.
pub(super) fn listed(name: &str, around: &Surroundings) -> Option<String> {
    let bytes = read(&around.dsh_home()?.join(DSH_KEYS)).ok()??;
    dsh_keys(&bytes)?.remove(name)
}

/// Where a login was looked for, for a sentence.
pub(super) fn places(login: &Login) -> String {
    let mut places: Vec<String> = login.vars.iter().map(|(known, _)| (*known).to_owned()).collect();
    places.extend(login.file.as_ref().map(|file| format!("~/{}/{}", file.folder, file.name)));
    places.push(format!("{DSH_KEYS} in DSH's folder"));
    places.join(", ")
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, String> {
    // A login that is kept elsewhere and linked to is the user's own doing.
    let Ok(path) = files::canonical(path) else { return Ok(None) };
    match files::read_bytes(&path, LOGIN_MAX_BYTES) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(FileProblem::Missing { .. }) => Ok(None),
        Err(problem) => Err(problem.to_string()),
    }
}

/// A mapping of names to texts; anything else in it is left out.
fn dsh_keys(bytes: &[u8]) -> Option<BTreeMap<String, String>> {
    let documents = Yaml::load_from_str(std::str::from_utf8(bytes).ok()?).ok()?;
    let Some(root) = documents.first() else { return Some(BTreeMap::new()) };
    if root.is_null() {
        return Some(BTreeMap::new());
    }
    let text = |node: &Yaml<'_>| node.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let pairs = root.as_mapping()?.iter();
    Some(pairs.filter_map(|(name, value)| Some((text(name)?, text(value)?))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOGIN: Login = Login {
        vars: &[("AGENT_KEY", "AGENT_KEY"), ("VENDOR_KEY", "AGENT_KEY")],
        file: Some(LoginFile { folder_var: "AGENT_HOME", folder: ".agent", name: "auth.json" }),
    };

    fn around(home: &Path, vars: &[(&str, &str)]) -> Surroundings {
        let vars = vars.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        Surroundings::of(vars.chain([("HOME".into(), home.into())]))
    }

    fn var(value: &str) -> Option<Key> {
        Some(Key::Var("AGENT_KEY", value.into()))
    }

    #[test]
    fn a_variable_then_the_own_file_then_the_list_of_dsh() {
        let dir = tempfile::tempdir().unwrap();
        let home = dir.path();
        let find = |vars: &[(&str, &str)]| find(&LOGIN, &around(home, vars)).unwrap();
        assert_eq!(find(&[]), None);
        std::fs::create_dir(home.join(".dsh")).unwrap();
        let list = "# keys\nOTHER_KEY: foreign\nVENDOR_KEY: \"from dsh\"\n";
        std::fs::write(home.join(".dsh/.credentials.yaml"), list).unwrap();
        assert_eq!(find(&[]), var("from dsh"), "the key lies only in DSH's list");
        std::fs::create_dir(home.join(".agent")).unwrap();
        std::fs::write(home.join(".agent/auth.json"), "{}").unwrap();
        assert_eq!(find(&[]), Some(Key::File("auth.json", b"{}".to_vec())));
        assert_eq!(find(&[("AGENT_HOME", "/nowhere")]), var("from dsh"));
        assert_eq!(find(&[("VENDOR_KEY", "v")]), var("v"));
        assert_eq!(find(&[("VENDOR_KEY", "v"), ("AGENT_KEY", "a")]), var("a"));
        assert_eq!(find(&[("AGENT_KEY", "")]), Some(Key::File("auth.json", b"{}".to_vec())));
    }

    #[test]
    fn a_login_file_is_read_up_to_its_limit_and_named_above_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".agent")).unwrap();
        let path = dir.path().join(".agent/auth.json");
        let look = |length: u64| {
            std::fs::write(&path, vec![b' '; length as usize]).unwrap();
            find(&LOGIN, &around(dir.path(), &[]))
        };
        let Ok(Some(Key::File(_, bytes))) = look(LOGIN_MAX_BYTES) else { panic!("it is read") };
        assert_eq!(bytes.len() as u64, LOGIN_MAX_BYTES);
        let said = look(LOGIN_MAX_BYTES + 1).unwrap_err();
        assert!(said.contains("auth.json") && said.contains("larger than"), "{said}");
    }

    #[test]
    fn a_damaged_list_is_named_without_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".dsh/.credentials.yaml");
        std::fs::create_dir(dir.path().join(".dsh")).unwrap();
        for (text, damaged) in
            [("- secret\n", true), ("a: [secret\n", true), ("", false), ("A: {x: y}", false)]
        {
            std::fs::write(&path, text).unwrap();
            let found = find(&LOGIN, &around(dir.path(), &[]));
            match found {
                Err(why) => assert!(damaged && !why.contains("secret"), "{why}"),
                Ok(found) => assert!(!damaged && found.is_none(), "{text}"),
            }
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let key = Key::Var("AGENT_KEY", "sk-secret".into());
        assert_eq!(
            format!("{key:?} {:?}", around(Path::new("/"), &[])),
            "Var(AGENT_KEY) Surroundings(1 variables)"
        );
    }
}
