//! The command line of `serve`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use loopwright_core::limits::Budget;
#[cfg(feature = "oidc")]
use loopwright_server::JwtUsers;
use loopwright_server::ServerBuilder;
use serde::{Deserialize, Serialize};

use super::cluster::ClusterArgs;
use super::rules::RuleOptions;
use super::sessions::StoreArgs;
use crate::error::StartError;
use crate::options::{Flags, SERVER, dollars};

/// The default of `--addr`.
pub(crate) const DEFAULT_ADDR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 7777);

/// The default of `--grace`, in seconds.
pub(crate) const DEFAULT_GRACE: u32 = 10;

/// The format of the log.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// Lines for people.
    #[default]
    Text,
    /// A JSON object in each line.
    Json,
}

/// Limits of every run, whatever its session or request says.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RunBudget {
    /// The maximum number of turns of a run, whatever its session says; by default the session's
    /// own maximum, which is 50 unless set.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_turns: Option<u32>,
    /// The maximum number of tokens of a run, input and output; unlimited by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_tokens: Option<u64>,
    /// The maximum cost of a run in US dollars; unlimited by default.
    ///
    /// With it, a model whose prices are not known is refused.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) max_cost: Option<f64>,
    /// The maximum time of a run, in seconds; a day by default.
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_time: Option<u32>,
}

/// An OpenID Connect provider whose tokens are accepted too.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct JwtArgs {
    /// Accept the tokens (JWT) of this OpenID Connect provider too: the claim `sub` is the user's
    /// name.
    #[arg(long, value_name = "URL")]
    pub(crate) jwt_issuer: Option<String>,
    /// The audience (the claim `aud`) that the tokens must name.
    #[arg(long, value_name = "NAME")]
    pub(crate) jwt_audience: Option<String>,
    /// The address of the provider's keys, if its document /.well-known/openid-configuration does
    /// not say it.
    #[arg(long, value_name = "URL")]
    pub(crate) jwt_keys: Option<String>,
    /// The claim with a user's roles, by default `roles`; `a.b` is `b` in the object `a`.
    #[arg(long, value_name = "CLAIM")]
    pub(crate) jwt_roles: Option<String>,
}

impl JwtArgs {
    /// Adds the provider's users to the server, if there is a provider.
    pub(crate) fn apply(&self, builder: ServerBuilder) -> Result<ServerBuilder, StartError> {
        let JwtArgs { jwt_issuer, jwt_audience, jwt_keys, jwt_roles } = self;
        match (jwt_issuer, jwt_audience) {
            (Some(issuer), Some(audience)) => self.add_users(issuer, audience, builder),
            (None, None) if jwt_keys.is_none() && jwt_roles.is_none() => Ok(builder),
            _ => {
                let why = "--jwt-issuer and --jwt-audience belong together: give both, or none of \
                           the settings that begin with `jwt`.";
                Err(StartError(why.into()))
            }
        }
    }

    #[cfg(not(feature = "oidc"))]
    fn add_users(&self, _: &str, _: &str, _: ServerBuilder) -> Result<ServerBuilder, StartError> {
        Err(StartError::without_feature("--jwt-issuer", "oidc"))
    }

    #[cfg(feature = "oidc")]
    fn add_users(
        &self,
        issuer: &str,
        audience: &str,
        builder: ServerBuilder,
    ) -> Result<ServerBuilder, StartError> {
        let mut users = JwtUsers::new(issuer, audience);
        if let Some(url) = &self.jwt_keys {
            users = users.keys_url(url);
        }
        if let Some(claim) = &self.jwt_roles {
            users = users.roles_claim(claim);
        }
        Ok(builder.jwt(users))
    }
}

/// A user of the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct UserArg {
    pub(crate) name: String,
    /// The SHA-256 digest of the token, in hexadecimal digits.
    pub(crate) digest: String,
    pub(crate) roles: Vec<String>,
}

impl FromStr for UserArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.splitn(3, ':');
        let (name, digest, roles) = (parts.next(), parts.next(), parts.next());
        let name = name_without_separators(name.unwrap_or_default())?;
        let digest = digest.filter(|digest| {
            digest.len() == 64 && digest.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let digest = digest.ok_or_else(|| {
            format!(
                "`{name}` must be followed by `:` and the digest of a token, in 64 hexadecimal \
                     digits, as the command `token` prints it"
            )
        })?;
        let roles = roles.into_iter().flat_map(|roles| roles.split(','));
        let roles = roles.map(name_without_separators).collect::<Result<_, _>>()?;
        Ok(UserArg { name, digest: digest.into(), roles })
    }
}

impl TryFrom<String> for UserArg {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<UserArg> for String {
    fn from(user: UserArg) -> String {
        let roles = user.roles.join(",");
        let separator = if roles.is_empty() { "" } else { ":" };
        format!("{}:{}{separator}{roles}", user.name, user.digest)
    }
}

/// Parses the name of a user or a role.
pub(super) fn name_without_separators(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("a name is missing".into()),
        name if name.contains([':', ',']) || name.contains(char::is_whitespace) => {
            Err(format!("`{name}` contains `:`, `,` or a space"))
        }
        name => Ok(name.into()),
    }
}

impl RunBudget {
    pub(crate) fn budget(&self) -> Budget {
        let time = |seconds: u32| Duration::from_secs(seconds.into());
        let mut budget = Budget::default();
        (budget.turns, budget.tokens, budget.cost) =
            (self.max_turns, self.max_tokens, self.max_cost);
        budget.time(self.max_time.map_or(ServerBuilder::RUN_TIME, time))
    }
}

// The user's settings file can contain each of these flags but the token in its table `[serve]`.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct ServeArgs {
    /// The address to listen on, by default 127.0.0.1:7777. An address that other machines can
    /// reach requires a token, and so does a --trusted-proxy.
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) addr: Option<SocketAddr>,
    /// A directory that clients may work in, with everything below it; the current one by default.
    /// May be repeated.
    #[arg(long, value_name = "DIR")]
    pub(crate) root: Vec<PathBuf>,
    /// The token that clients must send as `Authorization: Bearer TOKEN`, at least 16 characters.
    /// By default LOOPWRIGHT_TOKEN, which other users of this machine cannot see.
    #[arg(long, value_name = "TOKEN")]
    pub(crate) token: Option<String>,
    /// A user, by name, the digest of the user's token, and roles; `loopwright token` makes them. A
    /// user's sessions are the user's own, and --token is the operator's token. May be repeated.
    #[arg(long, value_name = "NAME:SHA256[:ROLE,...]")]
    pub(crate) user: Vec<UserArg>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) jwt: JwtArgs,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) cluster: ClusterArgs,
    /// A name of the server that clients may use, besides its address and localhost. May be
    /// repeated.
    #[arg(long, value_name = "NAME")]
    pub(crate) host: Vec<String>,
    /// The origin of another page that may use the server, such as `https://app.example.org`. May
    /// be repeated.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) origin: Vec<String>,
    /// The maximum number of concurrent runs per client address; 32 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_runs: Option<u32>,
    /// The maximum number of connections per client address, including streams of events; 1024 by
    /// default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_connections: Option<u32>,
    /// A URL to which each action is posted when it becomes pending or is resolved. Requests are
    /// signed with the secret in LOOPWRIGHT_WEBHOOK_SECRET (`whsec_` and 24 to 64 bytes in Base64).
    #[arg(long, value_name = "URL")]
    pub(crate) webhook: Option<String>,
    /// The maximum number of sessions that are open at a time; 4096 by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_open_sessions: Option<u32>,
    /// The maximum size of a request's body, in bytes; 4 MiB by default.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_body: Option<u32>,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) rules: RuleOptions,
    #[command(flatten)]
    #[serde(flatten)]
    pub(crate) run_budget: RunBudget,
    /// The maximum number of tokens of each user per day, in UTC; unlimited by default. It does not
    /// limit the operator.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) max_daily_tokens: Option<u64>,
    /// The maximum cost of each user per day in US dollars; unlimited by default. It does not limit
    /// the operator.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) max_daily_cost: Option<f64>,
    /// The time that runs have to finish when the server shuts down, in seconds; 10 by default.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) grace: Option<u32>,
    /// The form of the log on standard error: lines for people, as by default, or a JSON object in
    /// each line.
    #[arg(long, value_name = "FORMAT", value_enum)]
    pub(crate) log_format: Option<LogFormat>,
    /// The settings of sessions without their own.
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) defaults: Flags<SERVER>,
    #[command(flatten)]
    #[serde(skip)]
    pub(crate) store: StoreArgs,
}
