//! `loopwright token`: a new token of a user of the server.

use loopwright_core::hex;
use sha2::{Digest, Sha256};

use crate::args::TokenArgs;
use crate::error::StartError;
use crate::output;

/// The number of random bytes of a token.
const TOKEN_BYTES: usize = 24;

/// Prints a new token to standard output, and the setting for it to standard error. Returns the
/// exit code.
pub(crate) fn token(args: &TokenArgs) -> Result<u8, StartError> {
    let mut bytes = [0; TOKEN_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|why| StartError(format!("The system gives no random numbers: {why}.")))?;
    let token = hex::encode(&bytes);
    let digest = hex::encode(&Sha256::digest(token.as_bytes()));
    let roles = match args.role.is_empty() {
        true => String::new(),
        false => format!(":{}", args.role.join(",")),
    };
    let name = &args.name;
    let written = output::data(&format!("{token}\n"));
    output::info(&format!(
        "This is the token of {name}; it is not stored. Start the server with \
         --user {name}:{digest}{roles}, or add it to `user` in the table [serve] of your settings."
    ));
    output::after_write(written)
}
