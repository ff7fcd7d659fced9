//! [`System`]: the system's support for the confinement of commands, detected once.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use super::bubblewrap;
use super::cgroup::{self, Cgroups};
use super::landlock::Landlock;

/// The support that was detected so far. Clones share it, so that agents with the same
/// configuration do not detect it again.
///
/// It is not part of the configuration, so all values are equal.
#[derive(Debug, Clone, Default)]
pub(crate) struct System(Arc<Support>);

#[derive(Debug, Default)]
struct Support {
    landlock: OnceLock<Landlock>,
    bubblewrap: OnceLock<PathBuf>,
    cgroups: OnceLock<Cgroups>,
    memory: OnceLock<u64>,
}

impl System {
    /// Returns what Landlock supports. An error says why it supports nothing.
    pub(super) fn landlock(&self) -> Result<Landlock, String> {
        once(&self.0.landlock, Landlock::detect)
    }

    /// Returns the program bubblewrap, which has been tried. An error says why it does not work.
    pub(super) fn bubblewrap(&self) -> Result<PathBuf, String> {
        once(&self.0.bubblewrap, bubblewrap::find_program)
    }

    /// Returns the parents of control groups. An error says why none can be created.
    pub(super) fn cgroups(&self) -> Result<Cgroups, String> {
        once(&self.0.cgroups, Cgroups::detect)
    }

    /// Returns the bytes of memory that this process may have.
    pub(super) fn memory(&self) -> u64 {
        *self.0.memory.get_or_init(|| {
            let system = rustix::system::sysinfo();
            let total = (system.totalram as u64).saturating_mul(system.mem_unit.into());
            cgroup::memory_limit().map_or(total, |limit| limit.min(total))
        })
    }
}

impl PartialEq for System {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for System {}

/// Returns the value of the cell. Sets it if `find` succeeds: a failure may be temporary.
fn once<T: Clone>(cell: &OnceLock<T>, find: impl Fn() -> Result<T, String>) -> Result<T, String> {
    match cell.get() {
        Some(found) => Ok(found.clone()),
        None => find().map(|found| cell.get_or_init(|| found).clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::Commands;

    /// C317: Agents with the same commands detect the system's support only once.
    #[test]
    fn clones_share_what_was_found() {
        let commands = Commands::new();
        let other = commands.clone().network();
        let is_supported = commands.system.landlock().is_ok();
        assert_eq!(other.system.0.landlock.get().is_some(), is_supported);
        assert_eq!(Commands::new().system.0.landlock.get(), None);
        let is_supported = commands.system.bubblewrap().is_ok();
        assert_eq!(other.system.0.bubblewrap.get().is_some(), is_supported);
        assert_eq!(commands, Commands::new());
    }

    #[test]
    fn a_failure_is_retried() {
        let cell = OnceLock::new();
        assert_eq!(once::<u8>(&cell, || Err("not now".into())), Err("not now".into()));
        assert_eq!(once(&cell, || Ok(7)), Ok(7));
        assert_eq!(once(&cell, || Err("never asked".into())), Ok(7));
    }
}
