//! The flags of `serve` that limit its clients' requests.

use std::net::SocketAddr;

use clap::Args;
use loopwright_core::limits::Budget;
use loopwright_host::{ConfigError, OperatorRules};
use serde::{Deserialize, Serialize};

use crate::options::dollars;

/// The rules for clients: their models, addresses, approvals, proxies and budgets.
#[derive(Debug, Clone, Default, Args, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RuleOptions {
    /// A model that clients may use besides --model: `PROVIDER/NAME`, or the start of such names
    /// and `*`. May be repeated; without it all models are allowed.
    #[arg(long, value_name = "PATTERN")]
    pub(crate) allow_model: Vec<String>,
    /// An address that clients may give for a model, besides public ones: a host, with a port or
    /// without, an IP address, a network such as 10.1.0.0/16, or `all`. May be repeated.
    ///
    /// By default all addresses are allowed if only this machine can reach the server and it has no
    /// --user and no --jwt-issuer, else only public ones. It holds for `llmConfig` of
    /// /api/agent-chat and for models of servers on this machine, such as ollama/NAME; the
    /// addresses of your own models are always allowed.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) allow_address: Vec<String>,
    /// A tool whose calls clients may let run without approval, `all` for all tools, or `none`. May
    /// be repeated.
    ///
    /// By default all if only this machine can reach the server and it has no --user and no
    /// --jwt-issuer, else none. Tools that only read need no approval.
    #[arg(long, value_name = "TOOL|all|none")]
    pub(crate) allow_approve: Vec<String>,
    /// A proxy in front of the server, by its IP address or its network. May be repeated.
    ///
    /// The addresses of clients are taken from the header X-Forwarded-For of its requests. With it,
    /// other machines can reach the server, whatever --addr is, so it requires a token.
    #[arg(long, value_name = "IP|NETWORK")]
    pub(crate) trusted_proxy: Vec<String>,
    /// The maximum number of turns for the whole session; unlimited by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_session_turns: Option<u32>,
    /// The maximum number of tokens for the whole session, input and output; unlimited by default.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_session_tokens: Option<u32>,
    /// The maximum cost of the whole session in US dollars; unlimited by default.
    ///
    /// With it, a model whose prices are not known is refused.
    #[arg(long, value_name = "DOLLARS", value_parser = dollars)]
    pub(crate) max_session_cost: Option<f64>,
}

impl RuleOptions {
    /// Returns whether only people on this machine can reach a server that listens on this address,
    /// and all are its operator.
    pub(crate) fn is_personal(&self, address: SocketAddr, has_users: bool) -> bool {
        let is_local = address.ip().to_canonical().is_loopback() && self.trusted_proxy.is_empty();
        is_local && !has_users
    }

    /// Returns whether clients may use only some models.
    pub(crate) fn limit_models(&self) -> bool {
        !self.allow_model.is_empty() || !self.allow_address.is_empty()
    }

    /// Returns the rules of a server that listens on this address. `has_users` is true if it has
    /// users besides its operator.
    pub(crate) fn rules(
        &self,
        address: SocketAddr,
        has_users: bool,
    ) -> Result<OperatorRules, ConfigError> {
        let mut rules = match self.is_personal(address, has_users) {
            true => OperatorRules::open(),
            false => OperatorRules::strict(),
        };
        if !self.allow_model.is_empty() {
            rules = rules.models(&self.allow_model)?;
        }
        if !self.allow_address.is_empty() {
            rules = rules.addresses(&self.allow_address)?;
        }
        if !self.allow_approve.is_empty() {
            let tools = self.allow_approve.iter().filter(|tool| *tool != "none");
            rules = rules.approvals(tools);
        }
        let mut budget = Budget::default();
        budget.turns = self.max_session_turns;
        budget.tokens = self.max_session_tokens.map(u64::from);
        budget.cost = self.max_session_cost;
        Ok(rules.session_budget(budget))
    }
}
