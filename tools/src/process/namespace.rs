//! [`Namespace`]: mounts for one command, in which protected files are read-only.
//!
//! Landlock can only allow access, so it cannot except a file from a writable directory. A mount
//! can. A user without the right to mount gets it in a user namespace, as with bubblewrap. Only a
//! process with a single thread can create or enter one, and this process has several. So a child
//! creates the namespaces between fork and exec, and the command enters them there.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, fstat, fstatvfs, openat, stat};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MountPropagationFlags, mount_bind, mount_bind_recursive, mount_change,
    mount_remount,
};
use rustix::path::DecInt;
use rustix::process::chdir;
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};

/// The way in which commands get mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mounts {
    /// The rights of this process suffice.
    Own,
    /// A new user namespace is needed.
    NewUser,
}

/// The namespaces of a command.
pub(super) struct Namespace {
    user: Option<File>,
    mounts: File,
    cwd: Directory,
}

/// A directory, and the path that leads to it.
#[derive(Clone)]
pub(super) struct Directory {
    path: CString,
    id: (u64, u64),
}

/// The mounts in a directory.
pub(super) struct View {
    pub(super) root: Directory,
    /// Directories that cannot be moved. Each comes before the directories in it.
    pub(super) fixed: Vec<PathBuf>,
    pub(super) read_only: Vec<PathBuf>,
}

/// The prepared steps of a child process, which need no memory. The child is a copy of a process
/// with other threads, and one of these may have held the allocator's lock.
struct Plan {
    flags: UnshareFlags,
    /// The files that map this user to itself, and their new contents.
    maps: Vec<(&'static CStr, String)>,
    steps: Vec<Step>,
}

struct Step {
    root: Directory,
    names: Vec<CString>,
    read_only: bool,
}

impl Mounts {
    /// Returns which mounts work here, by trying. Returns `None` if none do.
    pub(super) fn detect() -> Option<Self> {
        let works = |mounts: &Mounts| {
            let root = Directory::find(Path::new("/"), Path::new("/"))?;
            let view =
                View { root: root.clone(), fixed: Vec::new(), read_only: vec!["proc".into()] };
            Namespace::create(*mounts, vec![view], root)
        };
        [Mounts::Own, Mounts::NewUser].into_iter().find(|mounts| works(mounts).is_ok())
    }
}

impl Directory {
    /// Returns the directory that `stable` leads to. `path` is its current path.
    pub(super) fn find(stable: &Path, path: &Path) -> io::Result<Self> {
        let metadata = std::fs::metadata(stable)?;
        Ok(Directory { path: c_string(path)?, id: (metadata.dev(), metadata.ino()) })
    }

    /// Returns an open directory with its path.
    pub(super) fn of(open: &impl AsRawFd) -> io::Result<Self> {
        let stable = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        Self::find(&stable, &std::fs::read_link(&stable)?)
    }

    /// Opens the directory, unless another directory has replaced it. Needs no memory.
    fn open(&self) -> rustix::io::Result<OwnedFd> {
        let file = open(CWD, &self.path)?;
        let found = fstat(&file)?;
        match (found.st_dev as u64, found.st_ino as u64) == self.id {
            true => Ok(file),
            false => Err(Errno::STALE),
        }
    }
}

impl Namespace {
    /// Creates the namespaces of a command that works in `cwd`.
    pub(super) fn create(mounts: Mounts, views: Vec<View>, cwd: Directory) -> io::Result<Self> {
        let plan = Plan::new(mounts, views)?;
        let mut holder = Command::new("/bin/sh");
        holder.args(["-c", "read -r _"]).env_clear().current_dir("/").process_group(0);
        holder.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        // SAFETY: between fork and exec in a process with threads, only async-signal-safe code may
        // run. `Plan::carry_out` makes system calls, which rustix makes without libc, with paths
        // that were made before. It does not allocate, free memory, take a lock or panic. It only
        // accesses its own memory, a copy of this process's.
        #[allow(unsafe_code, reason = "there is no safe way to run code in a child before exec")]
        unsafe {
            holder.pre_exec(move || Ok(plan.carry_out()?));
        }
        let mut holder = holder.spawn()?; // returns after the plan was carried out
        let open = |name: &str| File::open(format!("/proc/{}/ns/{name}", holder.id()));
        let user = (mounts == Mounts::NewUser).then(|| open("user")).transpose();
        let opened = user.and_then(|user| Ok((user, open("mnt")?)));
        drop(holder.stdin.take()); // ends it; open files keep the namespaces
        holder.wait()?;
        let (user, mounts) = opened?;
        Ok(Namespace { user, mounts, cwd })
    }

    /// Moves this process, which must have one thread, into the namespaces, and into its working
    /// directory there: an older descriptor of the directory leads to other mounts. Needs no
    /// memory.
    pub(super) fn enter(&self) -> rustix::io::Result<()> {
        if let Some(user) = &self.user {
            move_into_link_name_space(user.as_fd(), Some(LinkNameSpaceType::User))?;
        }
        move_into_link_name_space(self.mounts.as_fd(), Some(LinkNameSpaceType::Mount))?;
        chdir(&self.cwd.path)?;
        let found = stat(c".")?;
        match (found.st_dev as u64, found.st_ino as u64) == self.cwd.id {
            true => Ok(()),
            false => Err(Errno::STALE),
        }
    }
}

impl Plan {
    fn new(mounts: Mounts, views: Vec<View>) -> io::Result<Self> {
        let (mut flags, mut maps) = (UnshareFlags::NEWNS, Vec::new());
        if mounts == Mounts::NewUser {
            flags |= UnshareFlags::NEWUSER;
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            let [user, group] = [user.as_raw(), group.as_raw()].map(|id| format!("{id} {id} 1"));
            maps.push((c"/proc/self/setgroups", "deny".to_owned()));
            maps.push((c"/proc/self/uid_map", user));
            maps.push((c"/proc/self/gid_map", group));
        }
        let mut steps = Vec::new();
        for View { root, fixed, read_only } in views {
            let fixed = fixed.into_iter().map(|path| (path, false));
            for (path, read_only) in fixed.chain(read_only.into_iter().map(|path| (path, true))) {
                let names = path.iter().map(|name| c_string(Path::new(name)));
                let names = names.collect::<io::Result<_>>()?;
                steps.push(Step { root: root.clone(), names, read_only });
            }
        }
        Ok(Plan { flags, maps, steps })
    }

    /// Gives this process, which must have one thread, its own mounts. The system's mounts still
    /// appear among them, but not the other way round. Needs no memory.
    fn carry_out(&self) -> rustix::io::Result<()> {
        // SAFETY: the function is unsafe because of `UnshareFlags::FILES`, which separates this
        // thread's table of descriptors from the other threads' table. The flags do not contain it.
        #[allow(unsafe_code, reason = "the safe function is deprecated")]
        unsafe {
            unshare_unsafe(self.flags)?;
        }
        for (path, text) in &self.maps {
            let file = openat(CWD, *path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
            rustix::io::write(&file, text.as_bytes())?;
        }
        mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
        chdir(c"/proc/self/fd")?; // in which the number of a descriptor is a path to its file
        self.steps.iter().try_for_each(Step::carry_out)?;
        chdir(c"/")
    }
}

impl Step {
    /// Mounts the file or directory on itself.
    fn carry_out(&self) -> rustix::io::Result<()> {
        let original = self.open()?;
        let path = DecInt::from_fd(&original);
        if !self.read_only {
            return mount_bind_recursive(path.as_c_str(), path.as_c_str()); // it cannot be renamed
        }
        mount_bind(path.as_c_str(), path.as_c_str())?;
        let old = fstatvfs(&original)?.f_flag;
        let mut flags = MountFlags::BIND | MountFlags::RDONLY;
        for (was_set, flag) in [
            (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
            (StatVfsMountFlags::NODEV, MountFlags::NODEV),
            (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        ] {
            if old.contains(was_set) {
                flags |= flag;
            }
        }
        let mounted = self.open()?;
        mount_remount(DecInt::from_fd(&mounted).as_c_str(), flags, c"")
    }

    /// Opens the path without following a link in any of its parts.
    fn open(&self) -> rustix::io::Result<OwnedFd> {
        let mut file = self.root.open()?;
        for name in &self.names {
            file = open(file.as_fd(), name)?;
        }
        Ok(file)
    }
}

fn open(dir: BorrowedFd<'_>, path: &CStr) -> rustix::io::Result<OwnedFd> {
    openat(dir, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

fn c_string(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}
