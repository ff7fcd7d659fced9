//! `loopwright serve`: the agent over HTTP, until Ctrl-C or SIGTERM.

use std::env;
use std::future::pending;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::Principal;
use loopwright_core::limits::Budget;
use loopwright_host::{AgentFactory, AgentSetup, ConfigError, EnvModels, SessionSettings};
use loopwright_providers::{MAX_ATTEMPTS, MAX_RETRY_DELAY};
use loopwright_server::{Caller, Server, ServerBuilder, Webhook};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::args::{DEFAULT_ADDR, DEFAULT_GRACE, LogFormat, ServeArgs};
use crate::config::Config;
use crate::error::StartError;
use crate::exit_code::ABORTED;
use crate::facts;
use crate::interrupt::Interrupt;
use crate::mcp::Servers;
use crate::program::Kind;
use crate::session::{catalogue, detect};
use crate::{log, output};

/// Serves until the process is asked to stop, and returns the exit code.
pub(crate) async fn serve(mut args: ServeArgs, config: &Config) -> Result<u8, StartError> {
    let names = &config.program.names;
    log::start(names, args.log_format.unwrap_or_default())?;
    let grace = args.grace.unwrap_or(DEFAULT_GRACE);
    let models = models(&args.defaults.0, config)?;
    choose_model(&mut args, &models, config).await;
    let server = server(&args, models, config)?;
    let mut interrupt = Interrupt::listen()?;
    let mut terminate = Interrupt::terminate()?;
    let listener = listen(args.addr).await?;
    let address = listener
        .local_addr()
        .map_err(|why| StartError(format!("The server's address is unknown: {why}.")))?;
    let (shutdown_started, started) = oneshot::channel();
    let shutdown = async {
        output::info(&format!("Serving at http://{address} (Ctrl-C stops the server)."));
        tokio::select! {
            () = interrupt.pressed() => {}
            () = terminate.pressed() => {}
        }
        let second = Interrupt::listen(); // counts from now on
        output::info(&format!(
            "Stopping: current runs have {} seconds to finish. Press Ctrl-C again to stop at once.",
            grace
        ));
        let _ = shutdown_started.send(second);
    };
    let second_interrupt = async {
        match started.await {
            Ok(Ok(mut second)) => second.pressed().await,
            _ => pending().await,
        }
    };
    tokio::select! {
        served = loopwright_server::serve(listener, server, shutdown) => {
            served.map(|()| 0).map_err(|why| match why.kind() {
                ErrorKind::InvalidInput => {
                    let variable = names.token_variable();
                    StartError(format!("{why} Give one with --token or in {variable}."))
                }
                _ => StartError(format!("The server cannot be started: {why}.")),
            })
        }
        () = second_interrupt => Ok(ABORTED),
    }
}

/// Builds a server that nobody reaches, for the sessions of its store.
pub(crate) fn build(args: &ServeArgs, config: &Config) -> Result<Server, StartError> {
    server(args, models(&args.defaults.0, config)?, config)
}

fn models(defaults: &SessionSettings, config: &Config) -> Result<EnvModels, StartError> {
    let delay = defaults.max_retry_delay.map(|seconds| Duration::from_secs(seconds.into()));
    Ok(EnvModels::default()
        .catalogue(catalogue(defaults.models.as_ref(), &config.program.names)?)
        .retries(defaults.max_attempts.unwrap_or(MAX_ATTEMPTS), delay.unwrap_or(MAX_RETRY_DELAY))
        .timeouts(defaults))
}

/// Chooses the default model as the chat does, if none is named and all agents need one. A server
/// with other users, with rules for models, or with others beside it has the models that its
/// operator names.
async fn choose_model(args: &mut ServeArgs, models: &EnvModels, config: &Config) {
    let address = args.addr.unwrap_or(DEFAULT_ADDR);
    let is_personal = args.rules.is_personal(address, has_users(args));
    let has_rules = args.rules.limit_models() || args.cluster.placement.is_some();
    let defaults = &mut args.defaults.0;
    if defaults.model.is_some() || !is_personal || has_rules {
        return;
    }
    for (_, kind) in &config.program.agents {
        let Kind::Own(factory) = kind else { continue };
        let mut setup = AgentSetup::new(SessionSettings::new())
            .defaults(defaults.clone())
            .custom_settings(config.program.settings.clone())
            .models(Arc::new(models.clone()))
            .for_principal(facts::user());
        if let Some(system) = &config.program.system {
            setup = setup.default_system(system.clone());
        }
        let built = factory.build(&setup).await;
        if !built.is_err_and(|rejection| rejection.path() == Some("/model")) {
            return;
        }
    }
    // Without one, clients can still name a model.
    let (note, model) = match detect(defaults, config).await {
        Ok(choice) => (choice.note, Some(choice.model)),
        Err(why) => (format!("{why} Sessions must name a model."), None),
    };
    match args.log_format.unwrap_or_default() {
        LogFormat::Text => output::info(&note),
        LogFormat::Json => tracing::warn!("{note}"),
    }
    defaults.model = model;
}

/// Returns whether the server has users besides its operator.
fn has_users(args: &ServeArgs) -> bool {
    !args.user.is_empty() || args.jwt.jwt_issuer.is_some()
}

fn server(args: &ServeArgs, models: EnvModels, config: &Config) -> Result<Server, StartError> {
    let names = &config.program.names;
    let mut defaults = args.defaults.0.clone();
    let memory = facts::open_if(defaults.memory, names)?;
    (defaults.models, defaults.memory) = (None, None); // they are open
    let mut builder = Server::builder(config.program.open_store(args.store.path.clone())?)
        .models(models)
        .defaults(defaults)
        .principal(facts::user())
        .run_budget(args.run_budget.budget())
        .grace(Duration::from_secs(args.grace.unwrap_or(DEFAULT_GRACE).into()));
    let system = config.program.system.as_ref();
    let servers = Servers::of_server(config)?;
    for (name, kind) in &config.program.agents {
        let agent = kind.served(&args.root, memory.clone(), system, servers.clone())?;
        builder = builder.agent(name.clone(), agent);
    }
    if let Some(system) = system {
        builder = builder.system(system.clone());
    }
    for setting in &config.program.settings {
        builder = builder.setting(setting.clone());
    }
    if let Some(memory) = memory {
        builder = builder.long_term(memory);
    }
    builder = args.host.iter().fold(builder, |builder, name| builder.host(name));
    builder = args.origin.iter().fold(builder, |builder, origin| builder.origin(origin));
    let mut daily = Budget::default();
    (daily.tokens, daily.cost) = (args.max_daily_tokens, args.max_daily_cost);
    builder = builder.daily_budget(daily);
    if let Some(directory) = config.program.daily_use(args.store.path.as_deref()) {
        builder = builder.daily_use(directory);
    }
    for user in &args.user {
        let caller = Caller::new(Principal::new(user.name.as_str()));
        let caller = user.roles.iter().fold(caller, |caller, role| caller.role(role.as_str()));
        builder = builder.user_digest(&user.digest, caller);
    }
    if let Some(url) = &args.webhook {
        let variable = names.webhook_secret_variable();
        let secret = env::var(&variable).map_err(|_| {
            let why = "The webhook needs a secret, which its receiver knows too: set";
            StartError(format!(
                "{why} {variable} to one that `echo whsec_$(openssl rand -base64 32)` makes."
            ))
        })?;
        let hook = Webhook::new(url, secret);
        builder = builder.webhook(match config.program.outbox(args.store.path.as_deref(), url) {
            Some(file) => hook.outbox(file),
            None => hook,
        });
    }
    builder = args.jwt.apply(builder)?;
    if let Some(runs) = args.max_runs {
        builder = builder.max_runs(runs as usize, ServerBuilder::RUNS);
    }
    if let Some(connections) = args.max_connections {
        builder = builder.max_connections(connections as usize);
    }
    if let Some(sessions) = args.max_open_sessions {
        builder = builder.max_open_sessions(sessions as usize);
    }
    if let Some(bytes) = args.max_body {
        builder = builder.max_body(bytes as usize);
    }
    let rules = args.rules.rules(args.addr.unwrap_or(DEFAULT_ADDR), has_users(args));
    let failed = |why: ConfigError| StartError(why.to_string());
    builder = builder.rules(rules.map_err(failed)?);
    builder = builder.trusted_proxies(&args.rules.trusted_proxy).map_err(failed)?;
    let from_environment =
        || env::var(names.token_variable()).ok().filter(|token| !token.is_empty());
    let token = args.token.clone().or_else(from_environment);
    builder = args.cluster.apply(builder, token.as_ref())?;
    if let Some(token) = token {
        builder = builder.token(token);
    }
    config.telemetry.serve(builder).build().map_err(|why| StartError(why.to_string()))
}

async fn listen(addr: Option<SocketAddr>) -> Result<TcpListener, StartError> {
    let addr = addr.unwrap_or(DEFAULT_ADDR);
    let error = |why| StartError(format!("The server cannot listen on {addr}: {why}."));
    TcpListener::bind(addr).await.map_err(error)
}
