//! A conversation.

use crate::process::project;
use crate::server::Server;
use crate::tmux::Terminal;

#[test]
fn the_harness_works() {
    let dir = project();
    let terminal = Terminal::new(&dir, 80, 24, &[]);
    terminal.line("echo a-$((1+1))");
    terminal.until("a-2");
    terminal.assert_usable();
    let _ = (Server::start(), terminal.coloured(), terminal.running());
}
