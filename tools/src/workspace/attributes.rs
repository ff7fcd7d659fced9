//! Extended attributes of a file that is replaced, which POSIX ACLs are, too.

use std::fs::File;
use std::io;
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr};

/// The maximum size of a list of names, and of a value, on Linux.
const MAX_BYTES: usize = 64 << 10;
/// The capabilities of a program, which any write removes, like a set-user-id bit.
const CAPABILITIES: &[u8] = b"security.capability";
/// The access control list. With the mode alone, its mask would be the permissions of the group.
const ACCESS_LIST: &[u8] = b"system.posix_acl_access";

/// Copies the attributes of the file `name` to `new`, as far as this process may set them. Returns
/// `false` if it may not read them.
///
/// # Errors
///
/// Fails if an access control list cannot be copied.
pub(super) fn copy(dir: &Dir, name: &Path, new: &File) -> io::Result<bool> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    let Ok(old) = dir.open_with(name, &options) else { return Ok(false) };
    // The directory may have given it one.
    let _ = fremovexattr(new, ACCESS_LIST);
    let (mut names, mut value) = (vec![0; MAX_BYTES], vec![0; MAX_BYTES]);
    let Ok(length) = flistxattr(&old, &mut names[..]) else { return Ok(true) };
    for name in names[..length].split(|byte| *byte == 0) {
        if name.is_empty() || name == CAPABILITIES {
            continue;
        }
        let read = fgetxattr(&old, name, &mut value[..]);
        let copied =
            read.and_then(|length| fsetxattr(new, name, &value[..length], XattrFlags::empty()));
        if name == ACCESS_LIST {
            copied?;
        }
    }
    Ok(true)
}
