//! Which paths a task may change: the operator's globs, compared case-sensitively with bytes of paths.
//! It judges entries; it does not look for them.

use std::fmt;
use std::sync::LazyLock;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use super::path::{Change, Entry, RepoPath};

/// Folders that no task may touch, whatever its contract says.
const RESERVED: [&str; 2] = [".git", ".devloop"];

/// A pattern that is refused instead of being understood generously.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("path pattern '{pattern}' is refused: {why}")]
pub struct ScopeError {
    /// The pattern.
    pub pattern: String,
    /// Which rule it breaks.
    pub why: String,
}

/// Why one changed path is outside the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offence {
    /// No allowed pattern matches.
    NotAllowed,
    /// A forbidden pattern matches.
    Forbidden,
    /// Inside a folder that belongs to git or to the loop.
    Reserved,
    /// A symbolic link was added or written.
    Symlink,
    /// Another repository inside this one.
    Submodule,
    /// The executable bit of a file that was there changed.
    Mode,
    /// A binary file above the limit.
    Binary,
    /// A new name that differs from another one in nothing but upper and lower case.
    Collides,
    /// git does not see it because of a line that the change itself adds to an ignore file.
    Hidden,
    /// A single file that git ignores and the contract does not cover.
    Ignored,
    /// The repository has a content filter for it that the host does not run.
    Filtered,
    /// A name that cannot be a plain relative path.
    BadName,
}

impl fmt::Display for Offence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Offence::NotAllowed => "outside the allowed paths",
            Offence::Forbidden => "forbidden by the contract",
            Offence::Reserved => "belongs to git or to the loop",
            Offence::Symlink => "is a symbolic link",
            Offence::Submodule => "is a repository of its own",
            Offence::Mode => "has another mode; paths under modeChanges may",
            Offence::Binary => "is a binary file above maxBinaryBytes",
            Offence::Collides => "differs from another name only in upper and lower case",
            Offence::Hidden => "is hidden from git by a line that this change adds to an ignore file",
            Offence::Ignored => {
                "is ignored by git and outside the allowed paths; files under ignoredWrites may"
            }
            Offence::Filtered => {
                "goes through a content filter that nobody allowed; to allow it: \
                 git config --global --add devloop.filter NAME"
            }
            Offence::BadName => "is not a plain relative path",
        })
    }
}

/// A changed path that the contract does not cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The path.
    pub path: RepoPath,
    /// Why.
    pub offence: Offence,
}

/// The compiled patterns of one contract.
#[derive(Debug, Clone)]
pub struct Scope {
    allowed: GlobSet,
    forbidden: GlobSet,
    modes: GlobSet,
    ignored: GlobSet,
}

/// Single files that builds, tests and editors leave beside sources and that projects ignore.
const LEFT_BY_TOOLS: [&str; 37] = [
    "**/*.log",
    "**/*.tmp",
    "**/*.pid",
    "**/*.swp",
    "**/*~",
    "**/.DS_Store",
    "**/*.py[cod]",
    "**/.coverage",
    "**/.coverage.*",
    "**/coverage.*",
    "**/*.lcov",
    "**/*.prof",
    "**/*.profraw",
    "**/*.gcda",
    "**/*.gcno",
    "**/*.tsbuildinfo",
    "**/.eslintcache",
    "**/.stylelintcache",
    "**/next-env.d.ts",
    "**/package-lock.json",
    "**/yarn.lock",
    "**/pnpm-lock.yaml",
    "**/bun.lock",
    "**/Cargo.lock",
    "**/poetry.lock",
    "**/uv.lock",
    "**/Gemfile.lock",
    "**/composer.lock",
    "**/*.class",
    "**/*.[oad]",
    "**/*.so",
    "**/*.dylib",
    "**/*.dll",
    "**/*.exe",
    "**/*.obj",
    "**/*.test",
    "**/*.out",
];

impl Scope {
    /// Compiles the patterns. `*` stays inside one folder, `**` crosses folders; a pattern without any
    /// glob character, or one that ends in `/`, also covers everything below it. Brackets are a choice of
    /// characters and also stand for themselves: `app/[id]/page.tsx` is a name that people give to files.
    ///
    /// # Errors
    /// The first pattern that is empty, starts with `!` or `/`, has a part `..`, holds a backslash or a NUL,
    /// or is no glob.
    pub fn new<A: AsRef<str>, F: AsRef<str>>(allowed: &[A], forbidden: &[F]) -> Result<Self, ScopeError> {
        let (modes, ignored) = (GlobSet::empty(), GlobSet::empty());
        Ok(Scope { allowed: compile(allowed)?, forbidden: compile(forbidden)?, modes, ignored })
    }

    /// Lets a run leave single files that match one of these patterns, or are usual, although git ignores
    /// them.
    ///
    /// # Errors
    /// As [`Scope::new`].
    pub fn with_ignored<I: AsRef<str>>(self, ignored: &[I]) -> Result<Self, ScopeError> {
        Ok(Scope { ignored: compile(ignored)?, ..self })
    }

    /// May a run leave this file although git ignores it and no allowed pattern covers it?
    pub(super) fn lets_ignored(&self, path: &RepoPath) -> bool {
        // Compiled when first asked for: most runs leave nothing of the kind.
        static USUAL: LazyLock<GlobSet> = LazyLock::new(|| compile(&LEFT_BY_TOOLS).unwrap_or_default());
        self.ignored.is_match(path.as_path()) || USUAL.is_match(path.as_path())
    }

    /// Lets the executable bit of files that match one of these patterns change.
    ///
    /// # Errors
    /// As [`Scope::new`].
    pub fn with_modes<M: AsRef<str>>(self, modes: &[M]) -> Result<Self, ScopeError> {
        Ok(Scope { modes: compile(modes)?, ..self })
    }

    /// Everything among `entries` that is outside; empty means that all of it may be committed.
    pub fn violations(&self, entries: &[Entry]) -> Vec<Violation> {
        let judge = |e: &Entry| self.judge(e).map(|offence| Violation { path: e.path.clone(), offence });
        entries.iter().filter_map(judge).collect()
    }

    /// Do the allowed patterns cover this path and no forbidden one, whatever kind of entry it is?
    pub fn covers(&self, path: &RepoPath) -> bool {
        let path = path.as_path();
        self.allowed.is_match(path) && !self.forbidden.is_match(path)
    }

    fn judge(&self, entry: &Entry) -> Option<Offence> {
        let bytes = entry.path.as_bytes();
        let mut parts = bytes.split(|b| *b == b'/');
        if bytes.is_empty() || parts.clone().any(|p| matches!(p, b"" | b"." | b"..")) {
            return Some(Offence::BadName);
        }
        if parts.any(|part| RESERVED.iter().any(|name| part.eq_ignore_ascii_case(name.as_bytes()))) {
            return Some(Offence::Reserved);
        }
        if entry.is_submodule() {
            return Some(Offence::Submodule);
        }
        if entry.change != Change::Deleted && entry.is_symlink() {
            return Some(Offence::Symlink);
        }
        let path = entry.path.as_path();
        if self.forbidden.is_match(path) {
            return Some(Offence::Forbidden);
        }
        if !self.allowed.is_match(path) {
            return Some(Offence::NotAllowed);
        }
        (entry.changed_mode() && !self.modes.is_match(path)).then_some(Offence::Mode)
    }
}

fn compile<S: AsRef<str>>(patterns: &[S]) -> Result<GlobSet, ScopeError> {
    let refuse = |pattern: &str, why: &str| ScopeError { pattern: pattern.to_owned(), why: why.to_owned() };
    let mut set = GlobSetBuilder::new();
    for pattern in patterns.iter().map(AsRef::as_ref) {
        let why = match pattern {
            "" => Some("it is empty"),
            p if p.starts_with('!') => Some("a negation would widen the scope"),
            p if p.starts_with('/') => Some("it must be relative to the root"),
            p if p.contains('\\') || p.contains('\0') => Some("it holds a backslash or a NUL"),
            p if p.split('/').any(|part| part == "..") => Some("it holds '..'"),
            _ => None,
        };
        if let Some(why) = why {
            return Err(refuse(pattern, why));
        }
        let plain = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
        let glob = |text: &str| {
            GlobBuilder::new(text)
                .literal_separator(true)
                .case_insensitive(false)
                .build()
                .map_err(|e| refuse(pattern, &e.kind().to_string()))
        };
        let literal = plain.contains('[').then(|| plain.replace('[', "[[]"));
        for text in literal.as_deref().into_iter().chain([plain]) {
            match glob(text) {
                Ok(one) => {
                    set.add(one);
                }
                // Brackets that are no choice of characters only stand for themselves.
                Err(_) if literal.is_some() && text == plain => continue,
                Err(refused) => return Err(refused),
            }
            let is_plain = !text.contains(['*', '?', '{']) && (text != plain || literal.is_none());
            if pattern.ends_with('/') || is_plain {
                set.add(glob(&format!("{text}/**"))?);
            }
        }
    }
    set.build().map_err(|e| refuse(e.glob().unwrap_or(""), &e.kind().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, new_mode: u32) -> Entry {
        let change = if new_mode == 0 { Change::Deleted } else { Change::Modified };
        Entry { path: RepoPath::new(path), change, old_mode: 0o100644, new_mode, blob: None }
    }

    fn check(allowed: &[&str], forbidden: &[&str], path: &str, want: Option<Offence>) {
        let scope = Scope::new(allowed, forbidden).unwrap();
        let got = scope.violations(&[entry(path, 0o100644)]).first().map(|v| v.offence);
        assert_eq!(got, want, "{path} in {allowed:?} without {forbidden:?}");
    }

    #[test]
    fn globs_match_as_written() {
        check(&["src/**"], &[], "src/a/b.rs", None);
        check(&["src/*"], &[], "src/a/b.rs", Some(Offence::NotAllowed));
        check(&["src"], &[], "src/a/b.rs", None);
        check(&["src/"], &[], "src/a.rs", None);
        check(&["src"], &[], "srcs/a.rs", Some(Offence::NotAllowed));
        check(&["SRC/**"], &[], "src/a.rs", Some(Offence::NotAllowed));
        check(&["**/*.md"], &["docs"], "docs/x.md", Some(Offence::Forbidden));
        check(&["docs/设计/*"], &[], "docs/设计/overview.md", None);
        check(&["**"], &[], ".devloop/STATE.json", Some(Offence::Reserved));
        check(&["**"], &[], "sub/.GIT/config", Some(Offence::Reserved));
        check(&["**"], &[], "a/../b", Some(Offence::BadName));
        check(&[], &[], "a", Some(Offence::NotAllowed));
    }

    /// Routers of web frameworks name files with brackets and dots.
    #[test]
    fn brackets_stand_for_themselves_too() {
        check(&["app/[id]/page.tsx"], &[], "app/[id]/page.tsx", None);
        check(&["app/[id]/page.tsx"], &[], "app/i/page.tsx", None);
        check(&["app/[id]/page.tsx"], &[], "app/x/page.tsx", Some(Offence::NotAllowed));
        check(&["app/[...slug]/**"], &[], "app/[...slug]/a/page.tsx", None);
        check(&["app/[[...slug]]"], &[], "app/[[...slug]]/page.tsx", None);
        check(&["app/[...slug]/*.ts"], &[], "app/other/a.ts", Some(Offence::NotAllowed));
        check(&["src/[a-c].rs"], &[], "src/b.rs", None);
        check(&["src/[a-c].rs"], &[], "src/b.rs/x", Some(Offence::NotAllowed));
        check(&["src/["], &[], "src/[", None);
        check(&["**"], &["app/[id]"], "app/[id]/x", Some(Offence::Forbidden));
    }

    #[test]
    fn links_and_repositories_inside_are_refused_but_a_link_may_be_deleted() {
        let scope = Scope::new(&["**"], &[] as &[&str]).unwrap();
        let link = Entry { old_mode: 0, ..entry("l", 0o120000) };
        assert_eq!(scope.violations(&[link])[0].offence, Offence::Symlink);
        let gone = Entry { old_mode: 0o120000, ..entry("l", 0) };
        assert_eq!(scope.violations(&[gone]), []);
        assert_eq!(scope.violations(&[entry("sub", 0o160000)])[0].offence, Offence::Submodule);
    }

    #[test]
    fn the_mode_of_a_file_that_was_there_changes_only_by_leave() {
        let judge = |old_mode, new_mode, modes: &[&str]| {
            let scope = Scope::new(&["**"], &[] as &[&str]).unwrap().with_modes(modes).unwrap();
            let entry = Entry { old_mode, ..entry("bin/x", new_mode) };
            scope.violations(&[entry]).first().map(|violation| violation.offence)
        };
        assert_eq!(judge(0o100644, 0o100755, &[]), Some(Offence::Mode));
        assert_eq!(judge(0o100755, 0o100644, &["lib/**"]), Some(Offence::Mode));
        assert_eq!(judge(0o100644, 0o100755, &["bin/*"]), None);
        // A new file has no older mode, and one that goes keeps none.
        assert_eq!(judge(0, 0o100755, &[]), None);
        assert_eq!(judge(0o100755, 0, &[]), None);
    }

    #[test]
    fn what_tools_leave_beside_sources_is_usual_and_secrets_are_not() {
        let scope = Scope::new(&["src"], &[] as &[&str]).unwrap().with_ignored(&["local/*.json"]).unwrap();
        for (name, expect) in [
            ("npm-debug.log", true),
            ("a/b/c.pyc", true),
            ("Cargo.lock", true),
            ("lib/x.o", true),
            ("local/dev.json", true),
            ("local/deep/dev.json", false),
            (".env", false),
            ("config/secrets.yml", false),
            ("x.log/y", false),
        ] {
            assert_eq!(scope.lets_ignored(&RepoPath::new(name)), expect, "{name}");
        }
    }

    /// Rule 111: what could widen the scope is refused, not interpreted.
    #[test]
    fn patterns_that_could_widen_the_scope_are_refused() {
        for bad in ["", "!src", "/src", "../x", "a/../b", "..", "a\\b", "{", "a\0b"] {
            assert!(Scope::new(&[bad], &[] as &[&str]).is_err(), "{bad:?}");
            assert!(Scope::new(&["src"], &[bad]).is_err(), "{bad:?}");
        }
    }
}
