//! Tests of the parent groups, with trees of files instead of the kernel's.

use std::fs;

use super::*;

/// Creates a tree of groups with the given files and contents.
fn tree(groups: &[(&str, &[(&str, &str)])]) -> (tempfile::TempDir, String) {
    let dir = tempfile::tempdir().unwrap();
    for (group, files) in groups {
        let group = dir.path().join(group);
        fs::create_dir_all(&group).unwrap();
        for (file, content) in *files {
            fs::write(group.join(file), content).unwrap();
        }
    }
    let mounts = format!(
        "22 1 8:1 / / rw - ext4 /dev/root rw\n\
         30 22 0:26 / {} rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n",
        dir.path().display()
    );
    (dir, mounts)
}

const BOTH: (&str, &str) = ("cgroup.subtree_control", "cpu memory pids\n");
const FREE: (&str, &str) = ("pids.max", "max\n");

#[test]
fn a_group_is_created_beside_one_that_has_no_limits() {
    let own = "user.slice/user-0.slice/session-1.scope";
    let (dir, mounts) = tree(&[
        ("", &[BOTH]),
        ("user.slice/user-0.slice", &[BOTH, ("pids.max", "9000\n")]),
        (own, &[("cgroup.subtree_control", "\n"), FREE, ("memory.max", "max\n")]),
    ]);
    let parent = ParentGroup {
        dir: dir.path().join("user.slice/user-0.slice"),
        version: Version::V2,
        pids: true,
        memory: true,
    };
    assert_eq!(parent::find(&format!("0::/{own}\n"), &mounts), Ok(vec![parent]));
}

#[test]
fn no_group_is_created_outside_of_the_limits_of_this_process() {
    for limit in
        [("pids.max", "4915\n"), ("memory.max", "1073741824\n"), ("cpu.max", "50000 100000\n")]
    {
        let (_dir, mounts) = tree(&[("", &[BOTH]), ("system.slice/agent.service", &[FREE, limit])]);
        assert!(parent::find("0::/system.slice/agent.service\n", &mounts).is_err(), "{limit:?}");
    }
    let (_dir, mounts) = tree(&[("", &[BOTH])]);
    assert!(parent::find("0::/../other\n", &mounts).is_err(), "a group that cannot be seen");
    assert!(parent::find("", "").is_err());
}

#[test]
fn the_controllers_of_version_1_are_used_where_they_are() {
    let own = "4:memory:/jobs/a\n8:cpu,pids:/\n0::/\n";
    let (dir, _) = tree(&[("memory/jobs/a", &[]), ("pids", &[])]);
    let at = |name: &str| dir.path().join(name);
    let mounts = format!(
        "35 31 0:32 / {} rw - cgroup cgroup rw,memory\n39 31 0:36 / {} rw - cgroup c rw,cpu,pids\n",
        at("memory").display(),
        at("pids").display()
    );
    let parent = |dir, pids, memory| ParentGroup { dir, version: Version::V1, pids, memory };
    assert_eq!(
        parent::find(own, &mounts),
        Ok(vec![parent(at("pids"), true, false), parent(at("memory/jobs/a"), false, true)])
    );
    fs::write(at("memory/jobs/a/memory.stat"), "cache 0\nhierarchical_memory_limit 4096\n")
        .unwrap();
    assert_eq!(parent::memory_limit(own, &mounts), Some(4096));
}

#[test]
fn the_lowest_limit_of_memory_counts() {
    let (_dir, mounts) = tree(&[
        ("a", &[("memory.max", "1000\n")]),
        ("a/b", &[("memory.max", "5000\n")]),
        ("a/b/c", &[("memory.max", "max\n")]),
    ]);
    assert_eq!(parent::memory_limit("0::/a/b/c\n", &mounts), Some(1000));
    assert_eq!(parent::memory_limit("0::/x\n", &mounts), None);
}
