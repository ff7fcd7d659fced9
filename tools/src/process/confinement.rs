//! [`Confinement`]: the confinement of commands, and its description for models and users.

#[cfg(target_os = "linux")]
use std::path::PathBuf;

use serde_json::{Value, json};

#[cfg(all(test, target_os = "linux"))]
use super::bubblewrap;
#[cfg(target_os = "linux")]
use super::landlock::Landlock;
#[cfg(target_os = "linux")]
use super::process_set::Membership;
use crate::commands::Commands;

/// The description if protected files are read-only.
const READ_ONLY: &str = " Files that the user's own tools run, such as `.git/config`, \
    `.git/hooks`, `.envrc`, `.vscode`, are read-only; the file tools ask the user.";
/// The gap if protected files are read-only.
const CREATABLE: &str = "such files can be created";
/// The gap if protected files are not read-only.
const WRITABLE: &str = "files that the user's own tools run, such as `.git/config` and \
    `.git/hooks`, can be changed: such changes are undone after the command, and reported";

/// The mechanism that confines commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Confinement {
    /// The kernel confines commands, with rules that a thread sets for itself.
    #[cfg(target_os = "linux")]
    Landlock(Landlock),
    /// This program confines commands, in another view of the file system.
    #[cfg(target_os = "linux")]
    Bubblewrap(PathBuf),
    /// No mechanism, as configured by the operator.
    Unconfined,
    /// Confinement is not possible for this reason, so no command is run.
    Unavailable(String),
}

impl Confinement {
    /// Returns the best confinement that the system offers.
    #[cfg(target_os = "linux")]
    ///
    /// Landlock is preferred, except where only bubblewrap can make the protected files read-only,
    /// if there are any.
    pub(crate) fn detect(commands: &Commands, protects: bool) -> Self {
        if commands.unconfined {
            return Confinement::Unconfined;
        }
        let landlock = commands.system.landlock();
        if let Ok(landlock) = landlock
            && (landlock.has_mounts() || !protects)
        {
            return Confinement::Landlock(landlock);
        }
        match (commands.system.bubblewrap(), landlock) {
            (Ok(program), _) => Confinement::Bubblewrap(program),
            (Err(_), Ok(landlock)) => Confinement::Landlock(landlock),
            (Err(no_bubblewrap), Err(no_landlock)) => {
                Confinement::Unavailable(format!("{no_landlock}, and {no_bubblewrap}"))
            }
        }
    }

    /// Returns the confinement by a Landlock that does not scope signals yet.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn old_landlock() -> Self {
        Confinement::Landlock(Landlock::old())
    }

    /// Returns the confinement by Landlock, or an error if it does not work here.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn landlock() -> Result<Self, String> {
        Landlock::detect().map(Confinement::Landlock)
    }

    /// Returns the confinement by bubblewrap, or an error if it does not work here.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn bubblewrap() -> Result<Self, String> {
        bubblewrap::find_program().map(Confinement::Bubblewrap)
    }

    /// Returns no confinement: only Linux can confine commands.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn detect(commands: &Commands, _: bool) -> Self {
        match commands.unconfined && cfg!(unix) {
            true => Confinement::Unconfined,
            false => Confinement::Unavailable("only Linux can confine commands".into()),
        }
    }

    /// Returns how a command's processes are recognised. `tag` is in their environment.
    #[cfg(target_os = "linux")]
    pub(super) fn membership(&self, tag: String) -> Membership {
        match self {
            Confinement::Landlock(landlock) if landlock.scopes_signals() => Membership::Signals,
            Confinement::Landlock(_) => Membership::Traces,
            _ => Membership::Descent(tag),
        }
    }

    /// Returns sentences for the model about what commands can do. `protects` is true if the
    /// workspace has protected files.
    pub(crate) fn description(&self, commands: &Commands, protects: bool) -> String {
        let Some(name) = self.name() else {
            return match self {
                Confinement::Unavailable(why) => {
                    format!("It does not work on this system: {}", refusal(why))
                }
                _ => "Commands are not confined: they can do everything that the user can.".into(),
            };
        };
        let network =
            if commands.network { "have the network of this machine" } else { "have no network" };
        let mut text = format!(
            "Commands are confined by {name}: they can write only in the workspace and below the \
             temporary $TMPDIR and $HOME; read only there and in the system's directories; and \
             {network}. {}",
            self.otherwise()
        );
        if protects && self.makes_read_only() {
            text.push_str(READ_ONLY);
        }
        let gaps = self.gaps(commands, protects);
        if !gaps.is_empty() {
            text.push_str(&format!(" Not covered here: {}.", gaps.join("; ")));
        }
        text
    }

    /// Returns the same as JSON, for a user interface.
    pub(crate) fn details(&self, commands: &Commands, protects: bool) -> Value {
        match self.name() {
            None => json!({ "by": null }),
            Some(name) => json!({
                "by": name.to_lowercase(),
                "network": commands.network,
                "not_covered": self.gaps(commands, protects),
            }),
        }
    }

    /// Returns the name of the mechanism.
    fn name(&self) -> Option<&'static str> {
        match self {
            #[cfg(target_os = "linux")]
            Confinement::Landlock(_) => Some("Landlock"),
            #[cfg(target_os = "linux")]
            Confinement::Bubblewrap(_) => Some("bubblewrap"),
            Confinement::Unconfined | Confinement::Unavailable(_) => None,
        }
    }

    /// Returns a sentence about access to all other files.
    fn otherwise(&self) -> &'static str {
        match self {
            #[cfg(target_os = "linux")]
            Confinement::Bubblewrap(_) => "They see no other files.",
            _ => "Everything else fails with `Permission denied`.",
        }
    }

    /// Returns what the mechanism does not cover on this system.
    #[cfg_attr(not(target_os = "linux"), allow(unused_variables, reason = "used on Linux only"))]
    fn gaps(&self, commands: &Commands, protects: bool) -> Vec<&'static str> {
        let mut gaps = match self {
            #[cfg(target_os = "linux")]
            Confinement::Landlock(landlock) => landlock.gaps(commands.network),
            _ => Vec::new(),
        };
        if protects {
            gaps.push(if self.makes_read_only() { CREATABLE } else { WRITABLE });
        }
        gaps
    }

    /// Returns whether existing protected files are read-only.
    pub(crate) fn makes_read_only(&self) -> bool {
        match self {
            #[cfg(target_os = "linux")]
            Confinement::Landlock(landlock) => landlock.has_mounts(),
            #[cfg(target_os = "linux")]
            Confinement::Bubblewrap(_) => true,
            Confinement::Unconfined | Confinement::Unavailable(_) => false,
        }
    }
}

/// Returns why no command is run, and what to do.
pub(super) fn refusal(why: &str) -> String {
    format!(
        "commands cannot be confined on this system, so none is run: {why}. The operator of the \
         agent can use Linux 5.13 or newer with Landlock, install bubblewrap, or allow commands \
         without confinement (`--unconfined`, `Commands::unconfined`), which lets them do \
         everything that the user can"
    )
}
