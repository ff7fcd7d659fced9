//! [`Confinement`]: what keeps commands where they belong, and how that is told.

#[cfg(target_os = "linux")]
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::commands::Commands;

#[cfg(target_os = "linux")]
use super::{bubblewrap, confine::Landlock, members::Mark};

/// What keeps commands where they belong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Confinement {
    /// The kernel, by rules that a process sets itself.
    #[cfg(target_os = "linux")]
    Landlock(Landlock),
    /// This program, which shows them another file system.
    #[cfg(target_os = "linux")]
    Bubblewrap(PathBuf),
    /// Nothing, and that is what the user wants.
    Unconfined,
    /// Nothing, so no command is run; why.
    Missing(String),
}

impl Confinement {
    /// The best there is.
    #[cfg(target_os = "linux")]
    pub(crate) fn find(commands: &Commands) -> Self {
        if commands.unconfined {
            return Confinement::Unconfined;
        }
        match Landlock::find() {
            Ok(landlock) => Confinement::Landlock(landlock),
            Err(no_landlock) => match bubblewrap::find() {
                Ok(program) => Confinement::Bubblewrap(program),
                Err(no_bubblewrap) => {
                    Confinement::Missing(format!("{no_landlock}, and {no_bubblewrap}"))
                }
            },
        }
    }

    /// As on a kernel whose Landlock does not scope signals yet.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn old_landlock() -> Self {
        Confinement::Landlock(Landlock::old())
    }

    /// As on a kernel without Landlock, if the program is there.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn bubblewrap() -> Result<Self, String> {
        bubblewrap::find().map(Confinement::Bubblewrap)
    }

    /// Only Linux can confine.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn find(commands: &Commands) -> Self {
        match commands.unconfined && cfg!(unix) {
            true => Confinement::Unconfined,
            false => Confinement::Missing("only Linux can confine them".into()),
        }
    }

    /// How the processes of a command are told from others; `tag` is in their environment.
    #[cfg(target_os = "linux")]
    pub(super) fn mark(&self, tag: String) -> Mark {
        match self {
            Confinement::Landlock(landlock) if landlock.scopes_signals() => Mark::Signals,
            Confinement::Landlock(_) => Mark::Traces,
            _ => Mark::Descent(tag),
        }
    }

    /// For the model: what commands can do, in sentences.
    pub(crate) fn told(&self, commands: &Commands) -> String {
        let Some(by) = self.by() else {
            return match self {
                Confinement::Missing(why) => format!("It does not work here: {}", refusal(why)),
                _ => "Commands are not confined: they can do all that the user can.".into(),
            };
        };
        let network =
            if commands.network { "have the network of this machine" } else { "have no network" };
        let mut text = format!(
            "Commands are confined by {by}: they can write in the workspace and below $TMPDIR and $HOME, which are \
             temporary, and nowhere else; read only there and in the system's directories; and {network}. What is \
             refused fails with `Permission denied`."
        );
        let gaps = self.gaps(commands);
        if !gaps.is_empty() {
            text.push_str(&format!(" Not covered by this system: {}.", gaps.join("; ")));
        }
        text
    }

    /// The same for a user interface.
    pub(crate) fn details(&self, commands: &Commands) -> Value {
        match self.by() {
            None => json!({ "by": null }),
            Some(by) => json!({
                "by": by.to_lowercase(),
                "network": commands.network,
                "not_covered": self.gaps(commands),
            }),
        }
    }

    /// What it is called.
    fn by(&self) -> Option<&'static str> {
        match self {
            #[cfg(target_os = "linux")]
            Confinement::Landlock(_) => Some("Landlock"),
            #[cfg(target_os = "linux")]
            Confinement::Bubblewrap(_) => Some("bubblewrap"),
            Confinement::Unconfined | Confinement::Missing(_) => None,
        }
    }

    #[cfg_attr(
        not(target_os = "linux"),
        allow(unused_variables, reason = "nothing confines elsewhere")
    )]
    fn gaps(&self, commands: &Commands) -> Vec<&'static str> {
        match self {
            #[cfg(target_os = "linux")]
            Confinement::Landlock(landlock) => landlock.gaps(commands.network),
            _ => Vec::new(),
        }
    }
}

/// Why no command is run, and what to do.
pub(super) fn refusal(why: &str) -> String {
    format!(
        "commands cannot be confined on this system, so none is run: {why}. Whoever starts the agent can use Linux \
         5.13 or newer with Landlock, install bubblewrap, or allow commands without confinement (`--unconfined`, \
         `Commands::unconfined`), by which they may do all that the user may"
    )
}
