//! The screenshot in the README: a conversation in a real terminal.

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use loopwright_test_support::terminal::Terminal;
use serde_json::{Value, json};

use crate::BIN;
use crate::conversation::{call, reply_with_call};
use crate::svg::picture;

const MAIN: &str = "\
fn fields(line: &str) -> Vec<&str> {
    let mut fields = Vec::new();
    let mut rest = line;
    while let Some((field, more)) = rest.split_once(',') {
        fields.push(field);
        rest = more;
    }
    fields
}
";

/// Writes `target/screenshots/terminal.svg`, which `docs/picture` copies into the documentation.
#[test]
fn the_picture_in_the_readme() {
    const SIZE: (u16, u16) = (92, 38);
    let (dir, model) = (project(), Server::start());
    std::fs::create_dir(dir.path().join("src")).unwrap();
    std::fs::write(dir.path().join("src/csv.rs"), MAIN).unwrap();
    let terminal = Terminal::new(BIN, &dir, SIZE.0, SIZE.1, &[]);
    terminal.line(&format!(
        "clear; loopwright --model local/scripted --base-url {} --session csv",
        model.url
    ));
    terminal.until("Type what you want done");
    terminal.line("The last field of each line is lost. Why, and can you mend it?");
    let mut reply = model.request();
    reply.begin();
    reply.delta(
        json!({ "reasoning_content": "They split at commas; the end has none. Look at the loop." }),
        Value::Null,
    );
    reply.text("I'll look at how lines are split.");
    call(reply, "read_file", &json!({ "path": "src/csv.rs" }));
    let reply = model.request();
    let why = "The loop in `src/csv.rs` ends **before the last field**: there is no comma behind \
        it, so \
               `split_once` gives `None` and what is left in `rest` is dropped.\n\n\
               - `a,b,c` gives `a` and `b`\n- a line without a comma gives nothing\n\n\
               `split` does all of it:";
    let edit = json!({
        "path": "src/csv.rs",
        "old_string": &MAIN[MAIN.find("    let mut fields").unwrap()..MAIN.rfind('}').unwrap()],
        "new_string": "    line.split(',').collect()\n",
    });
    reply_with_call(reply, why, "edit_file", &edit);
    terminal.until("line.split(',').collect()");
    let screen =
        terminal.when("the diff is painted", |screen| screen.shows("y yes") && screen.shows("@@"));
    assert!(screen.shows("Run edit_file?"), "{screen}");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("terminal.svg"), picture(&terminal.coloured(), SIZE.0)).unwrap();
}
