//! The flags of `serve` for servers on several machines, and the command line of `cluster`.

use std::net::SocketAddr;
use std::str::FromStr;
#[cfg(feature = "fleet")]
use std::sync::Arc;

use clap::{Args, Subcommand};
#[cfg(feature = "fleet")]
use loopwright_durable::{Leases, Placement, Restate};
use loopwright_server::ServerBuilder;
use serde::{Deserialize, Serialize};

use super::sessions::StoreArgs;
use crate::error::StartError;

/// The mechanism that assigns sessions to servers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum PlacementArg {
    Leases,
    /// The URLs of the ingress of its nodes, separated by commas.
    Restate(String),
}

impl FromStr for PlacementArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            None if text == "leases" => Ok(PlacementArg::Leases),
            Some(("restate", url)) if url.starts_with("http") => {
                Ok(PlacementArg::Restate(url.to_owned()))
            }
            _ => Err("give `leases`, or `restate=URL` with the URL of the ingress of a Restate \
                      server, such as `restate=http://localhost:8080`"
                .into()),
        }
    }
}

impl TryFrom<String> for PlacementArg {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PlacementArg> for String {
    fn from(placement: PlacementArg) -> Self {
        match placement {
            PlacementArg::Leases => "leases".into(),
            PlacementArg::Restate(url) => format!("restate={url}"),
        }
    }
}

/// Servers on several machines.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ClusterArgs {
    /// Be one of several servers on one store: `leases`, or `restate=URL` with the ingress of a
    /// Restate server.
    ///
    /// Each server takes requests for every session. With `leases`, the server that gets an input
    /// opens its session, and the others take over from servers that die. With Restate, Restate
    /// decides, and keeps timers; separate the URLs of several nodes by commas. All need --store
    /// with the address of the same database.
    #[arg(long, value_name = "PLACEMENT")]
    pub(crate) placement: Option<PlacementArg>,
    /// The URL under which the other servers reach this one, such as `http://10.0.0.7:7777`: for
    /// the deltas of sessions that are open here. They use the operator's token, which is the same
    /// for all.
    #[arg(long, value_name = "URL")]
    pub(crate) reachable_at: Option<String>,
    /// The URL of Restate's admin API; by default the URL of the ingress with the port 9070.
    #[arg(long, value_name = "URL")]
    pub(crate) restate_admin: Option<String>,
    /// The address on which this server takes Restate's calls; 127.0.0.1:9080 by default. The port
    /// needs no token, so only Restate may reach it.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) restate_listen: Option<SocketAddr>,
    /// The URL under which Restate reaches the servers, such as a load balancer in front of the
    /// --restate-listen of all of them. By default that address itself.
    #[arg(long, value_name = "URL")]
    pub(crate) restate_calls: Option<String>,
}

impl ClusterArgs {
    /// Makes the server one of several, if a placement is named. The servers call each other with
    /// this token.
    pub(crate) fn apply(
        &self,
        builder: ServerBuilder,
        token: Option<&String>,
    ) -> Result<ServerBuilder, StartError> {
        let is_for_restate = self.restate_admin.is_some()
            || self.restate_listen.is_some()
            || self.restate_calls.is_some();
        let why = match &self.placement {
            None if is_for_restate || self.reachable_at.is_some() => {
                "--reachable-at and the settings that begin with `restate` are for several servers \
                 on one store: give --placement too."
            }
            None => return Ok(builder),
            Some(PlacementArg::Leases) if is_for_restate => {
                "The settings that begin with `restate` need --placement restate=URL."
            }
            Some(placement) => return self.place(placement, builder, token),
        };
        Err(StartError(why.into()))
    }

    #[cfg(not(feature = "fleet"))]
    fn place(
        &self,
        _: &PlacementArg,
        _: ServerBuilder,
        _: Option<&String>,
    ) -> Result<ServerBuilder, StartError> {
        Err(StartError::without_feature("--placement", "fleet"))
    }

    #[cfg(feature = "fleet")]
    fn place(
        &self,
        placement: &PlacementArg,
        builder: ServerBuilder,
        token: Option<&String>,
    ) -> Result<ServerBuilder, StartError> {
        let placement: Arc<dyn Placement> = match placement {
            PlacementArg::Leases => Arc::new(Leases::new()),
            PlacementArg::Restate(url) => Arc::new(self.restate(url)?),
        };
        let builder = builder.cluster(placement);
        Ok(match &self.reachable_at {
            Some(url) => builder.cluster_address(url, token.cloned()),
            None => builder,
        })
    }

    #[cfg(feature = "fleet")]
    fn restate(&self, ingress: &str) -> Result<Restate, StartError> {
        let mut urls = ingress.split(',');
        let first = urls.next().unwrap_or_default();
        let mut restate =
            urls.fold(Restate::builder(first), |restate, url| restate.or_ingress(url));
        if let Some(url) = &self.restate_admin {
            restate = restate.admin(url);
        }
        if let Some(address) = self.restate_listen {
            restate = restate.listen(address);
        }
        if let Some(url) = &self.restate_calls {
            restate = restate.reachable_at(url);
        }
        restate.build().map_err(|why| StartError(format!("{why}.")))
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ClusterCommand {
    /// List the servers on a database that have an address or sessions.
    ///
    /// Shows whether each is alive, how many sessions it has open, and how many it has taken over
    /// from dead servers.
    ///
    /// Exit codes: 0 done, 1 there is no server, 2 bad usage.
    Status {
        /// Print each as a line of JSON.
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        store: StoreArgs,
    },
}
