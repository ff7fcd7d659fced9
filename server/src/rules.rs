//! [`OperatorRules`]: what the operator of a server allows its clients.

mod addresses;
mod forwarded;
mod models;

use std::net::IpAddr;

use axum::http::HeaderMap;
use loopwright_core::agent::Budget;

#[cfg(feature = "coding-agent")]
pub(crate) use self::addresses::Addresses;
#[cfg(not(feature = "coding-agent"))]
use self::addresses::Addresses;
use self::forwarded::Proxies;
use self::models::ModelPattern;
use crate::error::{ApiError, ConfigError, ErrorKind};

/// The approval that stands for all tools.
const ALL: &str = "all";
/// The approval that stands for tools that only read, which need none.
const READ_ONLY: &str = "read-only";

/// Says what the clients of a server may ask for: which models, which addresses of models, which
/// lasting approvals, and how much a session may use. Given to
/// [`ServerBuilder::rules`](crate::ServerBuilder::rules).
///
/// What the operator has configured is always allowed: the server's own model, its address, and the
/// defaults of sessions.
///
/// ```
/// use loopwright_core::agent::Budget;
/// use loopwright_server::OperatorRules;
///
/// # fn main() -> Result<(), loopwright_server::ConfigError> {
/// let rules = OperatorRules::strict()
///     .models(["openai/*", "anthropic/claude-haiku-4-5"])?
///     .addresses(["models.internal:8080", "10.1.0.0/16"])?
///     .approvals(["write_file"])
///     .session_budget(Budget::default().tokens(2_000_000))
///     .trusted_proxies(["10.0.0.2"])?;
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct OperatorRules {
    /// `None` if all are allowed.
    models: Option<Vec<ModelPattern>>,
    addresses: Addresses,
    /// `None` if all are allowed.
    approvals: Option<Vec<String>>,
    session_budget: Budget,
    proxies: Proxies,
}

impl OperatorRules {
    /// Returns rules that allow everything: for a server that only its operator can reach.
    pub fn open() -> Self {
        OperatorRules {
            models: None,
            addresses: Addresses::all(),
            approvals: None,
            session_budget: Budget::default(),
            proxies: Proxies::default(),
        }
    }

    /// Returns rules for a server that others can reach: clients may name only public addresses,
    /// and may not let calls run without approval. All models are allowed.
    pub fn strict() -> Self {
        OperatorRules {
            addresses: Addresses::public(),
            approvals: Some(Vec::new()),
            ..OperatorRules::open()
        }
    }

    /// Allows only these models and the server's default model: `PROVIDER/NAME`, or the start of
    /// such names followed by `*`, such as `openai/*`. Requests to `/api/agent-chat`, too, may use
    /// only these, whatever address and key they bring.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if a pattern is empty, or has a `*` before its end.
    pub fn models<T: AsRef<str>>(
        mut self,
        patterns: impl IntoIterator<Item = T>,
    ) -> Result<Self, ConfigError> {
        let patterns = patterns.into_iter().map(|text| ModelPattern::parse(text.as_ref()));
        self.models = Some(patterns.collect::<Result<_, _>>()?);
        Ok(self)
    }

    /// Allows only these addresses, besides public ones, where clients name one: in
    /// `llmConfig.baseUrl` of `/api/agent-chat`. Each is an IP address, a network such as
    /// `10.1.0.0/16`, or `HOST` or `HOST:PORT` as it is in the URL. A network holds for what names
    /// resolve to, when the connection is made; a host is allowed whatever it resolves to. `all`
    /// allows every address.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if an address is none of these.
    pub fn addresses<T: AsRef<str>>(
        mut self,
        addresses: impl IntoIterator<Item = T>,
    ) -> Result<Self, ConfigError> {
        self.addresses = Addresses::parse(addresses)?;
        Ok(self)
    }

    /// Allows clients to let only these tools run without approval; `all` stands for all tools.
    ///
    /// A session that was stored with other approvals has only those among them that are allowed.
    /// Requests to `/api/agent-chat`, during which nobody can approve a call, run only calls of
    /// these tools and of those that only read.
    pub fn approvals<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        let tools: Vec<String> = tools.into_iter().map(Into::into).collect();
        self.approvals = Some(tools).filter(|tools| !tools.iter().any(|tool| tool == ALL));
        self
    }

    /// Bounds what each session may use in all, also one that was stored before; a session has its
    /// own limits besides. With a cost, requests to models without prices fail. The budget's time
    /// is ignored.
    pub fn session_budget(mut self, budget: Budget) -> Self {
        self.session_budget = budget;
        self
    }

    /// Takes the address of a client from the header `X-Forwarded-For` of requests that come from
    /// these proxies, each an IP address or a network such as `10.0.0.0/8`: the last address in it
    /// that is not one of theirs. From others the header is ignored, and `Forwarded` always is: a
    /// proxy that sets one of the two passes on what clients write into the other.
    ///
    /// It counts for the quotas of clients and in logs. Connections of the proxies are not bounded
    /// like those of a client; their requests in progress are, for each client. Others can reach
    /// the server through a proxy, so a [served](crate::serve) server with proxies needs a token.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if one is neither an IP address nor a network.
    pub fn trusted_proxies<T: AsRef<str>>(
        mut self,
        proxies: impl IntoIterator<Item = T>,
    ) -> Result<Self, ConfigError> {
        self.proxies = Proxies::parse(proxies)?;
        Ok(self)
    }

    /// Returns whether requests may be sent to this host of a client's URL, whatever addresses it
    /// has. For other hosts [`allows_ip`](Self::allows_ip) decides.
    pub fn allows_host(&self, host: &str, port: u16) -> bool {
        self.addresses.allows_host(host, port)
    }

    /// Returns whether connections may be made to this IP address, which is in a client's URL or
    /// which a name in it has resolved to.
    pub fn allows_ip(&self, ip: IpAddr) -> bool {
        self.addresses.allows_ip(ip)
    }

    /// Returns what decides about addresses.
    #[cfg(feature = "coding-agent")]
    pub(crate) fn client_addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Returns what each session may use in all.
    pub(crate) fn of_session(&self) -> &Budget {
        &self.session_budget
    }

    /// Returns the tools that clients may let run without approval, or `None` if all are allowed.
    pub(crate) fn approvable(&self) -> Option<&[String]> {
        self.approvals.as_deref()
    }

    /// Returns whether there are trusted proxies, through which others can reach the server.
    pub(crate) fn has_proxies(&self) -> bool {
        !self.proxies.is_empty()
    }

    /// Returns whether a connection from this address is that of a trusted proxy.
    pub(crate) fn is_proxy(&self, peer: IpAddr) -> bool {
        self.proxies.has(peer)
    }

    /// Returns the address of the client that a request with these headers comes from.
    pub(crate) fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        self.proxies.client_address(peer, headers)
    }

    /// Checks that a model is allowed, or that of the server. `path` is where the client names it.
    pub(crate) fn check_model(
        &self,
        model: &str,
        own: Option<&str>,
        path: &str,
    ) -> Result<(), ApiError> {
        let Some(allowed) = &self.models else { return Ok(()) };
        if own == Some(model) || allowed.iter().any(|pattern| pattern.matches(model)) {
            return Ok(());
        }
        let names = own.into_iter().map(str::to_owned);
        let names = names.chain(allowed.iter().map(ToString::to_string));
        let why = format!(
            "The model `{model}` is not allowed on this server. Use one of: {}.",
            list(names, "none")
        );
        Err(ApiError::new(ErrorKind::NotAllowed, why).with_path(path))
    }

    /// Checks that a client may let these tools run without approval.
    pub(crate) fn check_approvals(&self, approved: Option<&[String]>) -> Result<(), ApiError> {
        let other = approved.unwrap_or_default().iter().enumerate();
        let Some((index, name)) = other.into_iter().find(|(_, name)| !self.is_approvable(name))
        else {
            return Ok(());
        };
        let why = format!(
            "`{name}` may not run without approval on this server: leave it out. Allowed are: {}.",
            list(self.approvals.iter().flatten().cloned(), "none")
        );
        Err(ApiError::new(ErrorKind::NotAllowed, why).with_path(format!("/autoApprove/{index}")))
    }

    /// Returns those of these tools that clients may let run without approval; `all` stands for all
    /// tools.
    pub(crate) fn approvable_of<'a>(&'a self, approved: &'a [String]) -> Vec<&'a str> {
        match &self.approvals {
            Some(allowed) if approved.iter().any(|name| name == ALL) => {
                allowed.iter().map(String::as_str).collect()
            }
            _ => approved
                .iter()
                .map(String::as_str)
                .filter(|name| self.is_approvable(name))
                .collect(),
        }
    }

    fn is_approvable(&self, name: &str) -> bool {
        name == READ_ONLY
            || self.approvals.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name))
    }
}

/// Joins names for a sentence.
fn list(names: impl Iterator<Item = String>, if_empty: &str) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    if names.is_empty() { if_empty.to_owned() } else { names.join(", ") }
}
