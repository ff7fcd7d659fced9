//! A model of a disk: its certain contents, and its possible contents after a power failure.
//!
//! - A written sector may reach the disk at any time, in any order; a flush of its file makes that
//!   certain. A file's size, and the names in a directory, are treated the same way; names reach
//!   the disk in their order.
//! - If a flush fails, nothing is certain, and later flushes do not include earlier writes, unless
//!   they are rewritten.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use crate::random::Random;
use crate::record::Change;

const SECTOR_BYTES: u64 = 512;

/// A value on a disk that was written several times.
#[derive(Clone)]
struct Cell<T> {
    /// The value that is on disk if no later one is.
    certain: T,
    /// Later values that may be on disk, with the time when they were written.
    possible: Vec<(usize, T)>,
    /// `true` if the next flush includes the last value.
    is_dirty: bool,
}

impl<T: Clone> Cell<T> {
    fn new(certain: T) -> Self {
        Cell { certain, possible: Vec::new(), is_dirty: false }
    }

    fn last(&self) -> &T {
        self.possible.last().map_or(&self.certain, |(_, value)| value)
    }

    fn write(&mut self, time: usize, value: T) {
        self.possible.push((time, value));
        self.is_dirty = true;
    }

    fn flush(&mut self, succeeds: bool) {
        if succeeds && self.is_dirty {
            self.certain = self.last().clone();
            self.possible.clear();
        }
        self.is_dirty = false;
    }

    /// Returns the value on disk after a power failure, and the time when it was written.
    fn after(&self, cut: &mut Cut) -> (usize, &T) {
        self.after_with(cut, &[], usize::MAX)
    }

    /// Like [`Cell::after`], if values written at the times `certain` are on disk, and values from
    /// `end` on are not.
    fn after_with(&self, cut: &mut Cut, certain: &[usize], end: usize) -> (usize, &T) {
        let before = |time: usize| self.possible.iter().take_while(|(at, _)| *at < time).count();
        let first = self.possible.iter().rposition(|(at, _)| certain.contains(at));
        let first = first.map_or(0, |index| index + 1);
        let last = before(end).max(first);
        let count = match cut {
            Cut::Certain => first,
            Cut::Before(time) => before(*time + 1).clamp(first, last),
            Cut::AnyOrder(random) => first + random.below(last - first + 1),
        };
        match count.checked_sub(1) {
            None => (0, &self.certain),
            Some(last) => (self.possible[last].0, &self.possible[last].1),
        }
    }
}

/// The contents of the disk after a power failure.
pub(crate) enum Cut {
    /// Only its certain contents.
    Certain,
    /// Everything written until that time, too.
    Before(usize),
    /// Some of the other writes, too, in any order.
    AnyOrder(Random),
}

/// The sectors of a file, and its size.
struct FileCells {
    sectors: BTreeMap<u64, Cell<Vec<u8>>>,
    size: Cell<u64>,
    /// The times when it was made shorter. The size and the end of the content change together.
    truncated: Vec<usize>,
}

/// The names in a directory, as one value, since they reach the disk in their order.
type Names = BTreeMap<String, Node>;

#[derive(Clone, Copy)]
enum Node {
    File(usize),
    Directory(usize),
}

/// The disk. Inodes can be reused after a file was deleted, so files have numbers.
pub(crate) struct Disk {
    files: Vec<FileCells>,
    directories: Vec<Cell<Names>>,
    inodes: HashMap<u64, Node>,
    time: usize,
}

impl Disk {
    /// Creates an empty disk whose root has this inode.
    pub(crate) fn new(root: u64) -> Self {
        Disk {
            files: Vec::new(),
            directories: vec![Cell::new(Names::new())],
            inodes: HashMap::from([(root, Node::Directory(0))]),
            time: 0,
        }
    }

    fn file(&mut self, inode: u64) -> &mut FileCells {
        match self.inodes.get(&inode) {
            Some(Node::File(number)) => &mut self.files[*number],
            _ => panic!("{inode} is no file"),
        }
    }

    fn names<T>(&mut self, inode: u64, change: impl FnOnce(&mut Names) -> T) {
        let Some(Node::Directory(number)) = self.inodes.get(&inode) else {
            panic!("{inode} is no directory");
        };
        let directory = &mut self.directories[*number];
        let mut names = directory.last().clone();
        change(&mut names);
        directory.write(self.time, names);
    }

    /// Applies the next change.
    pub(crate) fn apply(&mut self, change: &Change) {
        self.time += 1;
        let time = self.time;
        match change {
            Change::Write { file, at, bytes } => self.file(*file).write(time, *at, bytes),
            Change::Truncate { file, size } => self.file(*file).truncate(time, *size),
            Change::Empty(file) => self.file(*file).truncate(time, 0),
            Change::Flushed(inode) => self.flush(*inode, true),
            Change::FlushFailed(inode) => self.flush(*inode, false),
            Change::Create { directory, name, file, is_directory } => {
                let node = if *is_directory {
                    self.directories.push(Cell::new(Names::new()));
                    Node::Directory(self.directories.len() - 1)
                } else {
                    self.files.push(FileCells {
                        sectors: BTreeMap::new(),
                        size: Cell::new(0),
                        truncated: Vec::new(),
                    });
                    Node::File(self.files.len() - 1)
                };
                self.inodes.insert(*file, node);
                self.names(*directory, |names| names.insert(name.clone(), node));
            }
            Change::Link { directory, name, file } => {
                let node = self.inodes[file];
                self.names(*directory, |names| names.insert(name.clone(), node));
            }
            Change::Rename { directory, from, to, file } => {
                let node = self.inodes[file];
                self.names(*directory, |names| {
                    names.remove(from);
                    names.insert(to.clone(), node);
                });
            }
            Change::Unlink { directory, name } => {
                self.names(*directory, |names| names.remove(name));
            }
        }
    }

    fn flush(&mut self, inode: u64, succeeds: bool) {
        match self.inodes[&inode] {
            Node::File(number) => {
                let FileCells { sectors, size, truncated } = &mut self.files[number];
                sectors.values_mut().for_each(|sector| sector.flush(succeeds));
                size.flush(succeeds);
                if succeeds {
                    truncated.clear();
                }
            }
            // The journal of a file system keeps writes that failed.
            Node::Directory(number) if succeeds => self.directories[number].flush(true),
            Node::Directory(_) => {}
        }
    }

    /// Writes the files and directories that are on disk after a power failure.
    pub(crate) fn write_to(&self, folder: &Path, cut: &mut Cut) {
        self.write_directory(0, folder, cut);
    }

    fn write_directory(&self, number: usize, folder: &Path, cut: &mut Cut) {
        for (name, node) in self.directories[number].after(cut).1.clone() {
            let path = folder.join(&name);
            match node {
                Node::Directory(number) => {
                    fs::create_dir(&path).expect("a new directory");
                    self.write_directory(number, &path, cut);
                }
                // Shared memory. SQLite recreates it from its log after a restart.
                Node::File(_) if name.ends_with("-shm") => {}
                Node::File(number) => {
                    fs::write(&path, self.files[number].after(cut)).expect("a new file");
                }
            }
        }
    }
}

impl FileCells {
    fn write(&mut self, time: usize, at: u64, bytes: &[u8]) {
        let mut at = at;
        let mut rest = bytes;
        while !rest.is_empty() {
            let number = at / SECTOR_BYTES;
            let start = (at % SECTOR_BYTES) as usize;
            let (now, later) = rest.split_at(rest.len().min(SECTOR_BYTES as usize - start));
            let sector = self.sectors.entry(number).or_insert_with(|| Cell::new(vec![0; 512]));
            let mut content = sector.last().clone();
            content[start..start + now.len()].copy_from_slice(now);
            sector.write(time, content);
            at += now.len() as u64;
            rest = later;
        }
        let size = (*self.size.last()).max(at);
        self.size.write(time, size);
    }

    fn truncate(&mut self, time: usize, size: u64) {
        for (number, sector) in &mut self.sectors {
            let kept = size.saturating_sub(number * SECTOR_BYTES).min(SECTOR_BYTES) as usize;
            let mut content = sector.last().clone();
            if content[kept..].iter().any(|byte| *byte != 0) {
                content[kept..].fill(0);
                sector.write(time, content);
            }
        }
        self.size.write(time, size);
        self.truncated.push(time);
    }

    fn after(&self, cut: &mut Cut) -> Vec<u8> {
        let (time, size) = self.size.after(cut);
        let mut content = vec![0; *size as usize];
        let count = self.truncated.iter().take_while(|at| **at <= time).count();
        let (done, later) = self.truncated.split_at(count);
        let end = later.first().copied().unwrap_or(usize::MAX);
        for (number, sector) in &self.sectors {
            let (_, sector) = sector.after_with(cut, done, end);
            let start = (number * SECTOR_BYTES) as usize;
            if let Some(room) = content.get_mut(start..) {
                let length = room.len().min(sector.len());
                room[..length].copy_from_slice(&sector[..length]);
            }
        }
        content
    }
}
