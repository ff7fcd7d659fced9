//! [`OperatorRules`]: the limits that a server's operator sets for its clients.

mod addresses;
mod models;

use std::net::IpAddr;

use loopwright_core::limits::Budget;

#[cfg(feature = "coding-agent")]
pub(crate) use self::addresses::Addresses;
#[cfg(not(feature = "coding-agent"))]
use self::addresses::Addresses;
use self::models::ModelPattern;
use crate::error::ConfigError;
use crate::rejection::AgentRejection;

/// The approval that stands for all tools.
const ALL: &str = "all";
/// The approval that stands for read-only tools, which need none.
const READ_ONLY: &str = "read-only";

/// The limits that the operator sets for the clients of a server: allowed models, addresses of
/// models and lasting approvals, and the budget of a session. They are passed to
/// `ServerBuilder::rules` of the crate `loopwright-server`.
///
/// The operator's own configuration is always allowed: the server's model, its address, and the
/// defaults of sessions.
///
/// ```
/// use loopwright_core::limits::Budget;
/// use loopwright_host::OperatorRules;
///
/// # fn main() -> Result<(), loopwright_host::ConfigError> {
/// let rules = OperatorRules::strict()
///     .models(["openai/*", "anthropic/claude-haiku-4-5"])?
///     .addresses(["models.internal:8080", "10.1.0.0/16"])?
///     .approvals(["write_file"])
///     .session_budget(Budget::default().tokens(2_000_000));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct OperatorRules {
    /// The allowed models; `None` if all are allowed.
    models: Option<Vec<ModelPattern>>,
    addresses: Addresses,
    /// The tools that clients may approve for good; `None` if all are allowed.
    approvals: Option<Vec<String>>,
    session_budget: Budget,
}

impl OperatorRules {
    /// Returns rules that allow everything, for a server that only its operator can reach.
    pub fn open() -> Self {
        OperatorRules {
            models: None,
            addresses: Addresses::all(),
            approvals: None,
            session_budget: Budget::default(),
        }
    }

    /// Returns rules for a server that others can reach. Clients may name only public addresses,
    /// and may not let calls run without approval. All models are allowed.
    pub fn strict() -> Self {
        OperatorRules {
            addresses: Addresses::public(),
            approvals: Some(Vec::new()),
            ..OperatorRules::open()
        }
    }

    /// Allows only these models and the server's default model. A pattern is `PROVIDER/NAME`, or
    /// the start of such names followed by `*`, such as `openai/*`. It applies to requests to
    /// `/api/agent-chat` too, whatever their address and key.
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

    /// Sets the addresses that clients may name besides public ones, in `llmConfig.baseUrl` of
    /// `/api/agent-chat`. Each is an IP address, a network such as `10.1.0.0/16`, or `HOST` or
    /// `HOST:PORT` as in the URL. `all` allows every address.
    ///
    /// A network also covers the addresses that a name resolves to, when the connection is made. A
    /// host is allowed whatever it resolves to.
    ///
    /// # Errors
    /// Returns a [`ConfigError`] if an address is invalid.
    pub fn addresses<T: AsRef<str>>(
        mut self,
        addresses: impl IntoIterator<Item = T>,
    ) -> Result<Self, ConfigError> {
        self.addresses = Addresses::parse(addresses)?;
        Ok(self)
    }

    /// Allows clients to let only these tools run without approval. `all` stands for all tools.
    ///
    /// A session that was stored with other approvals keeps only the allowed ones. In requests to
    /// `/api/agent-chat`, nobody can approve a call, so only calls of these tools and of read-only
    /// tools run.
    pub fn approvals<T: Into<String>>(mut self, tools: impl IntoIterator<Item = T>) -> Self {
        let tools: Vec<String> = tools.into_iter().map(Into::into).collect();
        self.approvals = Some(tools).filter(|tools| !tools.iter().any(|tool| tool == ALL));
        self
    }

    /// Sets the total budget of each session, including sessions stored earlier. A session's own
    /// limits apply too. With a cost, requests to models without prices fail.
    pub fn session_budget(mut self, budget: Budget) -> Self {
        self.session_budget = budget;
        self
    }

    /// Returns whether requests may be sent to this host of a client's URL, whatever its addresses.
    /// For other hosts [`allows_ip`](Self::allows_ip) decides.
    pub fn allows_host(&self, host: &str, port: u16) -> bool {
        self.addresses.allows_host(host, port)
    }

    /// Returns whether connections may be made to this IP address. It is in a client's URL, or a
    /// host name in the URL has resolved to it.
    pub fn allows_ip(&self, ip: IpAddr) -> bool {
        self.addresses.allows_ip(ip)
    }

    /// Returns the addresses that clients may name.
    #[cfg(feature = "coding-agent")]
    pub(crate) fn client_addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Returns the total budget of each session.
    pub(crate) fn of_session(&self) -> &Budget {
        &self.session_budget
    }

    /// Returns the tools that clients may let run without approval, or `None` if all are allowed.
    pub(crate) fn approvable(&self) -> Option<&[String]> {
        self.approvals.as_deref()
    }

    /// Checks that a model is allowed, or is the server's own. `path` is its position in the
    /// client's request.
    pub(crate) fn check_model(
        &self,
        model: &str,
        own: Option<&str>,
        path: &str,
    ) -> Result<(), AgentRejection> {
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
        Err(AgentRejection::not_allowed(path, why))
    }

    /// Checks that a client may let these tools run without approval.
    pub(crate) fn check_approvals(
        &self,
        approved: Option<&[String]>,
    ) -> Result<(), AgentRejection> {
        let other = approved.unwrap_or_default().iter().enumerate();
        let Some((index, name)) = other.into_iter().find(|(_, name)| !self.is_approvable(name))
        else {
            return Ok(());
        };
        let why = format!(
            "`{name}` may not run without approval on this server: leave it out. Allowed are: {}.",
            list(self.approvals.iter().flatten().cloned(), "none")
        );
        Err(AgentRejection::not_allowed(format!("/approve/{index}"), why))
    }

    /// Returns the tools, of these, that clients may let run without approval. `all` stands for all
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
