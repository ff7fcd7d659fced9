//! Going through the files of a directory tree: [`Workspace::walk`].
//!
//! The crate `ignore` walks, on several threads, and does not follow symbolic links. It reads names
//! by ambient paths, so a directory that is swapped for a link meanwhile could show it names
//! outside: they are only hints here. Whatever is told or opened is looked up again from the open
//! root ([`Here`]), and so are the files that say what to ignore, of which a link, a pipe or a very
//! large one is not read.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, File, OpenOptions};
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::{DirEntry, Match, WalkBuilder, WalkState};
use loopwright_core::{ToolContext, ToolError};

use super::{Root, Workspace, replace};
use crate::error::shown;

/// The largest file that says what to ignore, in bytes; of a larger one, this much is read.
const IGNORE_BYTES: u64 = 1024 * 1024;

/// A file that a walk has come by, or a symbolic link.
pub(crate) struct Here<'a> {
    root: &'a Root,
    near: &'a Near,
    /// Its path from the root of the workspace.
    pub(crate) path: &'a Path,
    /// Its path from where the walk began; of a file that was itself the start, its name.
    pub(crate) below: &'a Path,
    /// Whether it is a regular file, and no link.
    pub(crate) is_file: bool,
}

/// What a walk did not see.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// Directories that could not be listed.
    unreadable: AtomicUsize,
    ignored: Mutex<Ignored>,
}

/// What some rule ignores. What is in such a directory is not counted: nobody looks into it.
#[derive(Debug, Default)]
struct Ignored {
    directories: usize,
    files: usize,
    /// One of them, a directory if there is one; whether it is none, and its path from the root.
    example: Option<(bool, PathBuf)>,
}

impl Walked {
    /// What is to be said of it, where something was found or nothing.
    pub(crate) fn told(self, nothing: bool) -> String {
        let mut told = match self.unreadable.into_inner() {
            0 => String::new(),
            1 => "… 1 directory could not be read\n".into(),
            n => format!("… {n} directories could not be read\n"),
        };
        let Ignored { directories, files, example } =
            self.ignored.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some((_, example))) = (nothing, example) {
            let count = |n, one, many| match n {
                0 => None,
                1 => Some(format!("1 {one}")),
                n => Some(format!("{n} {many}")),
            };
            let all =
                [count(directories, "directory", "directories"), count(files, "file", "files")];
            told.push_str(&format!(
                "… not looked at: {}, which a .gitignore or its like names. To look there, give one as `path`, such as \
                 `{}`\n",
                all.into_iter().flatten().collect::<Vec<_>>().join(" and "),
                text_of(&example)
            ));
        }
        told
    }

    fn ignore(&self, path: &Path, is_dir: bool) {
        if path.starts_with(".loopwright") {
            return; // the tools' own, of which each answer tells
        }
        let mut ignored = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
        match is_dir {
            true => ignored.directories += 1,
            false => ignored.files += 1,
        }
        let is_better =
            |(is_file, known): &(bool, PathBuf)| (!is_dir, path) < (*is_file, known.as_path());
        if ignored.example.as_ref().is_none_or(is_better) {
            ignored.example = Some((!is_dir, path.to_owned()));
        }
    }
}

impl Here<'_> {
    /// Whether it is in the workspace.
    pub(crate) fn is_there(&self) -> bool {
        let name = self.path.file_name();
        let directory = self.near.opened.get_or_init(|| {
            let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
            self.root.dir.open_dir(directory.unwrap_or(Path::new("."))).ok()
        });
        directory
            .as_ref()
            .zip(name)
            .is_some_and(|(directory, name)| directory.symlink_metadata(name).is_ok())
    }

    /// Opens it if it is a regular file.
    pub(crate) fn open(&self) -> io::Result<File> {
        open_regular(self.root, self.path)
    }
}

impl Workspace {
    /// Goes through the files below `path`, or to the file that it is, in no certain order, on
    /// several threads: each calls a function that `thread` makes. Left out are `.git`, and what a
    /// `.gitignore` or `.ignore` in the workspace names, unless the walk begins in it.
    pub(crate) fn walk<'w, V>(
        &'w self,
        path: &str,
        cx: &ToolContext,
        thread: impl Fn() -> V,
    ) -> Result<Walked, ToolError>
    where
        V: FnMut(&Here<'_>) + Send + 'w,
    {
        let fail = |e: io::Error| self.error(path, "searched", &e);
        let root = &*self.root;
        let start = root.dir.canonicalize(self.inside(path)?).map_err(fail)?;
        let metadata = root.dir.metadata(&start).map_err(fail)?;
        if !metadata.is_dir() {
            super::regular(path, &metadata)?;
            let below = start.file_name().map(Path::new).unwrap_or(&start);
            thread()(&Here { root, near: &Near::default(), path: &start, below, is_file: true });
            return Ok(Walked::default());
        }
        root.dir.open_dir(&start).map_err(fail)?;
        // Joining `.` or nothing would leave a mark in each path.
        let start = root.real.join(start).components().collect::<PathBuf>();
        let rules = Rules::above(root, &start);
        let walked = Walked::default();
        let walk =
            WalkBuilder::new(&start).standard_filters(false).follow_links(false).build_parallel();
        walk.run(|| {
            let (mut visit, mut near, start) = (thread(), Near::default(), &start);
            let (rules, walked) = (&rules, &walked);
            Box::new(move |entry| {
                if cx.is_cancelled() {
                    return WalkState::Quit;
                }
                let Ok(entry) = entry else {
                    walked.unreadable.fetch_add(1, Ordering::Relaxed);
                    return WalkState::Continue;
                };
                step(root, rules, start, walked, &mut near, &entry, &mut visit)
            })
        });
        if cx.is_cancelled() { Err(ToolError::Cancelled) } else { Ok(walked) }
    }
}

fn step(
    root: &Root,
    rules: &Rules,
    start: &Path,
    walked: &Walked,
    near: &mut Near,
    entry: &DirEntry,
    visit: &mut impl FnMut(&Here<'_>),
) -> WalkState {
    let (path, kind) = (entry.path(), entry.file_type());
    let is_dir = kind.is_some_and(|kind| kind.is_dir());
    if entry.depth() > 0 {
        let name = entry.file_name().as_encoded_bytes();
        if name == b".git" || replace::is_temporary(name) {
            return WalkState::Skip;
        }
        if near.of(rules, path).ignores(path, is_dir) {
            walked.ignore(path.strip_prefix(&root.real).unwrap_or(path), is_dir);
            return WalkState::Skip;
        }
    }
    if is_dir {
        rules.read(root, path);
    } else if let (Ok(inside), Ok(below)) =
        (path.strip_prefix(&root.real), path.strip_prefix(start))
        && let Some(kind) = kind.filter(|kind| kind.is_file() || kind.is_symlink())
    {
        visit(&Here {
            root,
            near: near.of(rules, path),
            path: inside,
            below,
            is_file: kind.is_file(),
        });
    }
    WalkState::Continue
}

/// What is to be ignored, by the directory that says so.
struct Rules {
    root: PathBuf,
    /// Where the walk begins.
    start: PathBuf,
    by_directory: RwLock<HashMap<PathBuf, Arc<Gitignore>>>,
}

impl Rules {
    /// The rules of the directories from the root of the workspace down to that of `start`, without
    /// its own.
    fn above(root: &Root, start: &Path) -> Self {
        let rules = Rules {
            root: root.real.clone(),
            start: start.to_owned(),
            by_directory: RwLock::default(),
        };
        for directory in
            start.ancestors().skip(1).take_while(|directory| directory.starts_with(&root.real))
        {
            rules.read(root, directory);
        }
        rules
    }

    /// Reads what `directory` says. Comes before anything in it is visited.
    fn read(&self, root: &Root, directory: &Path) {
        let Ok(inside) = directory.strip_prefix(&root.real) else {
            return;
        };
        let mut builder = GitignoreBuilder::new(directory);
        let at_root = directory == root.real;
        let exclude = at_root && add_lines(root, Path::new(".git/info/exclude"), &mut builder);
        // The last rule that fits holds, so what is to win comes last.
        let ignores =
            [".gitignore", ".ignore"].map(|name| add_lines(root, &inside.join(name), &mut builder));
        if exclude || ignores.contains(&true) {
            self.add(directory, builder);
        }
    }

    /// Whether by these rules nothing would be seen: they ignore where the walk begins, or whatever
    /// is in it.
    fn ignores_start(&self, directory: &Path, rules: &Gitignore) -> bool {
        let any = self.start.join("any name, such as nothing has");
        let itself = || rules.matched_path_or_any_parents(&self.start, true).is_ignore();
        self.start.starts_with(directory)
            && (rules.matched(any, false).is_ignore() || self.start != directory && itself())
    }

    fn add(&self, directory: &Path, builder: GitignoreBuilder) {
        if let Ok(rules) = builder.build()
            && !self.ignores_start(directory, &rules)
        {
            let mut all = self.by_directory.write().unwrap_or_else(PoisonError::into_inner);
            all.insert(directory.to_owned(), Arc::new(rules));
        }
    }
}

/// Adds the lines of this file, if it is a regular one; says whether it was.
fn add_lines(root: &Root, path: &Path, builder: &mut GitignoreBuilder) -> bool {
    let Ok(file) = open_regular(root, path) else {
        return false;
    };
    let mut bytes = Vec::new();
    if file.take(IGNORE_BYTES).read_to_end(&mut bytes).is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&bytes);
    for line in text.trim_start_matches('\u{feff}').lines() {
        let _ = builder.add_line(None, line); // a line that is no pattern ignores nothing
    }
    true
}

/// What is known of one directory, remembered from one entry of it to the next.
#[derive(Default)]
struct Near {
    directory: PathBuf,
    /// The rules for what is in it, from its own up to those of the root.
    rules: Vec<Arc<Gitignore>>,
    /// It, opened from the root when that is first needed; `None` if it is not there, or leads out.
    opened: OnceCell<Option<Dir>>,
}

impl Near {
    fn of(&mut self, rules: &Rules, path: &Path) -> &Self {
        let directory = path.parent().unwrap_or(path);
        if self.directory.as_os_str() != directory.as_os_str() {
            let all = rules.by_directory.read().unwrap_or_else(PoisonError::into_inner);
            self.rules.clear();
            if !all.is_empty() {
                let inside =
                    directory.ancestors().take_while(|above| above.starts_with(&rules.root));
                self.rules.extend(inside.filter_map(|above| all.get(above).cloned()));
            }
            self.opened.take();
            self.directory.clear();
            self.directory.push(directory);
        }
        self
    }

    /// The nearest directory that has a word on it decides.
    fn ignores(&self, path: &Path, is_dir: bool) -> bool {
        let words = self.rules.iter().map(|rules| rules.matched(path, is_dir));
        words
            .into_iter()
            .find(|word| !word.is_none())
            .is_some_and(|word| matches!(word, Match::Ignore(_)))
    }
}

/// Opens a regular file that is no link itself, without waiting for a pipe's other end.
fn open_regular(root: &Root, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    let file = root.dir.open_with(path, &options)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// A path from the root as text; what is no UTF-8 in it is replaced.
pub(crate) fn text_of(path: &Path) -> String {
    shown(&path.to_string_lossy())
}
