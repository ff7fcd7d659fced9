//! `loopwright serve`: the agent over HTTP, until Ctrl-C or SIGTERM.

use std::env;
use std::fmt::Display;
use std::future::pending;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;

use loopwright_server::{CodingAgents, EnvModels, Server, ServerBuilder};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use crate::args::{DEFAULT_ADDR, ServeArgs};
use crate::environment::TOKEN;
use crate::error::StartError;
use crate::exit_code::ABORTED;
use crate::facts;
use crate::interrupt::Interrupt;
use crate::session::{catalogue, open_store};
use crate::{log, output};

/// Serves until the process is asked to stop, and returns the exit code.
pub(crate) async fn serve(args: ServeArgs) -> Result<u8, StartError> {
    log::start()?;
    let server = server(&args)?;
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
            args.grace
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
                    StartError(format!("{why} Give one with --token or in {TOKEN}."))
                }
                _ => StartError(format!("The server cannot be started: {why}.")),
            })
        }
        () = second_interrupt => Ok(ABORTED),
    }
}

fn server(args: &ServeArgs) -> Result<Server, StartError> {
    let mut models = EnvModels::default()
        .catalogue(catalogue(args.models.as_ref())?)
        .retries(args.retries.attempts(), args.retries.delay());
    if let Some(model) = &args.model {
        models = models.default_model(model, args.base_url.clone());
    }
    let mut agents = CodingAgents::builder(models).commands(args.commands.commands());
    agents = args.root.iter().fold(agents, |agents, root| agents.root(root));
    agents = args.unprotected.iter().fold(agents, |agents, path| agents.unprotected(path));
    if args.no_agents_md.unwrap_or_default() {
        agents = agents.no_agents_md();
    }
    if args.no_questions.unwrap_or_default() {
        agents = agents.no_questions();
    }
    let memory = facts::open_if(args.memory)?;
    if let Some(memory) = &memory {
        agents = agents.long_term(memory.clone());
    }
    let agents = agents.build().map_err(|why| StartError(why.to_string()))?;
    let mut builder = Server::builder(agents)
        .store(open_store(args.store.path.clone())?)
        .principal(facts::user())
        .grace(Duration::from_secs(args.grace.into()));
    if let Some(memory) = memory {
        builder = builder.long_term(memory);
    }
    builder = args.host.iter().fold(builder, |builder, name| builder.host(name));
    builder = args.origin.iter().fold(builder, |builder, origin| builder.origin(origin));
    if let Some(runs) = args.max_runs {
        builder = builder.max_runs(runs as usize, ServerBuilder::RUNS);
    }
    if let Some(connections) = args.max_connections {
        builder = builder.max_connections(connections as usize);
    }
    let from_environment = || env::var(TOKEN).ok().filter(|token| !token.is_empty());
    if let Some(token) = args.token.clone().or_else(from_environment) {
        builder = builder.token(token);
    }
    builder.build().map_err(|why| StartError(why.to_string()))
}

async fn listen(addr: Option<SocketAddr>) -> Result<TcpListener, StartError> {
    let error = |addr: &dyn Display, why: io::Error| {
        StartError(format!("The server cannot listen on {addr}: {why}."))
    };
    match addr {
        Some(addr) => TcpListener::bind(addr).await.map_err(|why| error(&addr, why)),
        None => TcpListener::bind(DEFAULT_ADDR).await.map_err(|why| error(&DEFAULT_ADDR, why)),
    }
}
