//! [`ParentGroup`]: a group below which other groups can be created.

use std::path::{Path, PathBuf};

/// A group below which other groups can be created, and the limits that these can have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParentGroup {
    pub(super) dir: PathBuf,
    pub(super) version: Version,
    /// `true` if the groups below can limit the number of processes.
    pub(super) pids: bool,
    /// `true` if the groups below can limit memory.
    pub(super) memory: bool,
}

/// The version of the control group interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    V1,
    V2,
}

impl Version {
    /// Returns the name of the file that limits memory.
    pub(super) fn memory_file(self) -> &'static str {
        match self {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }

    /// Returns the name of the file with the count of out-of-memory events.
    pub(super) fn memory_events(self) -> &'static str {
        match self {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        }
    }
}

/// The files of version 2 that limit a group. They contain `max` if there is no limit.
const LIMITS: [&str; 5] = ["pids.max", "memory.max", "memory.high", "memory.swap.max", "cpu.max"];

/// Finds the parent groups of a process with this `/proc/self/cgroup` and `/proc/self/mountinfo`: a
/// group that limits processes, and possibly a second group that limits memory.
pub(super) fn find(own: &str, mounts: &str) -> Result<Vec<ParentGroup>, String> {
    if let Some((dir, top)) = Group::find(own, mounts, None)
        && let Some(parent) = parent_v2(&dir, &top)
    {
        return Ok(vec![parent]);
    }
    let v1 = |controller: &str| {
        let (dir, _) = Group::find(own, mounts, Some(controller))?;
        let (pids, memory) = (controller == "pids", controller == "memory");
        Some(ParentGroup { dir, version: Version::V1, pids, memory })
    };
    match v1("pids") {
        Some(pids) => Ok([Some(pids), v1("memory")].into_iter().flatten().collect()),
        None => Err("no control group of this process can have others below it that limit \
                     processes"
            .into()),
    }
}

/// Returns the lowest memory limit of a process's groups, in bytes.
pub(super) fn memory_limit(own: &str, mounts: &str) -> Option<u64> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    let v2 = Group::find(own, mounts, None).and_then(|(dir, top)| {
        let groups = dir.ancestors().take_while(|group| group.starts_with(&top));
        groups.filter_map(|group| read(group.join("memory.max")).trim().parse().ok()).min()
    });
    let v1 = Group::find(own, mounts, Some("memory")).and_then(|(dir, _)| {
        let stat = read(dir.join("memory.stat"));
        let limit = stat.lines().find_map(|l| l.strip_prefix("hierarchical_memory_limit "));
        limit?.trim().parse().ok()
    });
    [v2, v1].into_iter().flatten().min()
}

/// Returns the nearest group from `dir` up to `top` whose children have the controllers, unless its
/// children would leave a limit.
fn parent_v2(dir: &Path, top: &Path) -> Option<ParentGroup> {
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap_or_default();
    // Only the top group may have processes as well as children with controllers.
    if dir == top {
        let _ = std::fs::write(dir.join("cgroup.subtree_control"), "+pids +memory");
    }
    for group in dir.ancestors().take_while(|group| group.starts_with(top)) {
        let controllers = read(group.join("cgroup.subtree_control"));
        let has = |name: &str| controllers.split_whitespace().any(|word| word == name);
        if has("pids") {
            let (dir, memory) = (group.to_owned(), has("memory"));
            return Some(ParentGroup { dir, version: Version::V2, pids: true, memory });
        }
        let is_limited = |file: &&str| {
            let limit = read(group.join(file));
            !limit.is_empty() && !limit.starts_with("max")
        };
        if LIMITS.iter().any(is_limited) {
            return None;
        }
    }
    None
}

/// A control group line of `/proc/self/mountinfo`.
struct Group<'a> {
    /// The mounted group.
    root: &'a str,
    mount_point: PathBuf,
    options: &'a str,
    version: Version,
}

impl<'a> Group<'a> {
    /// Finds the directory of a process's group, and the topmost visible one. `controller` selects
    /// version 1, `None` version 2.
    fn find(own: &str, mounts: &str, controller: Option<&str>) -> Option<(PathBuf, PathBuf)> {
        let of = |line: &str| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let is_it = match controller {
                None => controllers.is_empty(),
                Some(name) => controllers.split(',').any(|word| word == name),
            };
            is_it.then(|| path.to_owned())
        };
        let path = own.lines().find_map(of)?;
        let has = |mount: &Group<'_>| match controller {
            None => mount.version == Version::V2,
            Some(name) => {
                mount.version == Version::V1 && mount.options.split(',').any(|word| word == name)
            }
        };
        let mount = mounts.lines().filter_map(Group::parse).find(has)?;
        let below = Path::new(&path).strip_prefix(mount.root).ok()?;
        // A path outside of the namespace begins with `/..`.
        if below.components().any(|part| part == std::path::Component::ParentDir) {
            return None;
        }
        Some((mount.mount_point.join(below), mount.mount_point))
    }

    fn parse(line: &'a str) -> Option<Self> {
        let (mount, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let version = match kind.next()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        let options = kind.nth(1)?;
        let mut mount = mount.split(' ').skip(3);
        Some(Group { root: mount.next()?, mount_point: mount.next()?.into(), options, version })
    }
}
