//! Users of the server, each with a token and roles.

use loopwright_test_support::http::{Connection, Response};
use loopwright_test_support::process::project;
use serde_json::{Value, json};

use super::Served;
use crate::BIN;

const OPERATOR: &str = "a-token-of-32-characters-0123456";

/// Makes a token with `loopwright token`, and returns it with the `--user` for it.
pub(super) fn user(name: &str, role: &str) -> (String, String) {
    let args = [&["token", name][..], if role.is_empty() { &[] } else { &["--role", role] }];
    let made = BIN.run(&project(), &args.concat());
    assert_eq!(made.code, 0, "{made:?}");
    let user = made.err.split_whitespace().find(|word| word.starts_with(&format!("{name}:")));
    (made.out.trim().into(), user.unwrap().trim_end_matches(',').into())
}

fn send(served: &Served, token: &str, line: &str, body: &Value) -> Response {
    let (address, body) = (&served.address, body.to_string());
    let mut connection = Connection::open(address);
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\nContent-Type: \
         application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    );
    connection.send(request.as_bytes());
    connection.response().unwrap()
}

pub(super) fn json_of(response: &Response) -> Value {
    serde_json::from_str(&response.body).unwrap()
}

/// C228: Each token names a user, who has their own sessions. The operator's token opens all
/// sessions, and an unknown token none. The server knows only digests.
#[test]
fn each_user_has_sessions_of_their_own() {
    let (ann, ann_user) = user("ann", "");
    let (bob, bob_user) = user("bob", "reader");
    assert!(ann.len() >= 40 && ann != bob && !ann_user.contains(&ann) && !bob_user.contains(&bob));
    let served = Served::start(&[
        "--token", OPERATOR, "--user", &ann_user, "--user", &bob_user, "--model", "offline",
    ]);
    let created = send(&served, &ann, "POST /api/sessions", &json!({}));
    assert_eq!(created.status, 201, "{created:?}");
    let id = json_of(&created)["id"].as_str().unwrap().to_owned();
    let path = format!("/api/sessions/{id}");
    let own = json_of(&send(&served, &bob, "POST /api/sessions", &json!({})))["id"].clone();
    let own = format!("/api/sessions/{}", own.as_str().unwrap());
    for (token, reads, changes, reads_bobs) in [
        (&*ann, 200, 202, 404),
        (&*bob, 200, 403, 200),
        (OPERATOR, 200, 202, 200),
        ("another-token-of-some-length", 401, 401, 401),
        (&ann_user[4..], 401, 401, 401),
    ] {
        let get = |path: &str| send(&served, token, &format!("GET {path}"), &json!({})).status;
        assert_eq!((get(&path), get(&own)), (reads, reads_bobs), "{token}");
        let prompt = json!({ "message": "Hello" });
        let sent = send(&served, token, &format!("POST {path}/prompt"), &prompt);
        assert_eq!(sent.status, changes, "{token}: {sent:?}");
    }
}

/// Mistakes in the settings of users are reported at the start, with the name of the setting.
#[test]
fn mistakes_in_users_are_reported() {
    let digest = "0".repeat(64);
    let (dir, twice) = (project(), format!("ann:{digest}"));
    for (users, why) in [
        (vec!["ann"], "64 hexadecimal digits"),
        (vec!["ann:12"], "64 hexadecimal digits"),
        (vec![&*format!(":{digest}")], "a name is missing"),
        (vec![&*format!("ann:{digest}:a b")], "contains"),
        (vec![&*twice, &*format!("bob:{digest}")], "the same token"),
    ] {
        let users: Vec<&str> = users.into_iter().flat_map(|user| ["--user", user]).collect();
        let exit = BIN.run(&dir, &[&["serve", "--addr", "127.0.0.1:0"], &users[..]].concat());
        assert!(exit.code == 2 && exit.err.contains(why), "{exit:?}");
    }
    for (flags, why) in [
        (&["--webhook", "https://example.org"][..], "LOOPWRIGHT_WEBHOOK_SECRET"),
        (&["--jwt-issuer", "https://id.example.org"], "belong together"),
        (&["--jwt-roles", "groups"], "belong together"),
        (
            &["--jwt-issuer", "http://id.example.org", "--jwt-audience", "a"],
            match cfg!(feature = "oidc") {
                true => "no address with https",
                false => "needs the feature `oidc`, which this program was built without",
            },
        ),
    ] {
        let exit = BIN.run(&dir, &[&["serve", "--addr", "127.0.0.1:0"], flags].concat());
        assert!(exit.code == 2 && exit.err.contains(why), "{exit:?}");
    }
    std::fs::write(dir.path().join("own.toml"), "[serve]\nuser = [\"ann:12\"]\n").unwrap();
    let own = dir.path().join("own.toml");
    let vars = [("LOOPWRIGHT_CONFIG", own.to_str().unwrap())];
    let exit = BIN.start_with(&dir, &["serve"], &vars).end();
    assert!(exit.code == 2 && exit.err.contains(":2: `serve.user` must be a list of users"));
}

/// C288: flags and settings bound what each user uses per day, in tokens and in dollars.
#[test]
fn flags_and_settings_bound_the_use_of_a_day() {
    let (token, ann) = user("ann", "");
    for (flags, settings) in [
        (&["--max-daily-tokens", "10"][..], ""),
        (&[], "[serve]\nmax_daily_tokens = 10"),
        (&["--max-daily-cost", "0.00001"], ""),
        (&[], "[serve]\nmax_daily_cost = 0.00001"),
    ] {
        let dir = project();
        let (config, models) = (dir.path().join("own.toml"), dir.path().join("models.toml"));
        std::fs::write(&config, settings).unwrap();
        let prices = "[\"custom/m\"]\nprices = { input = 5.0, output = 5.0 }\n";
        std::fs::write(&models, prices).unwrap();
        let args = [&["--user", &ann, "--models", models.to_str().unwrap()], flags].concat();
        let served = Served::start_own(&args, &[("LOOPWRIGHT_CONFIG", config.to_str().unwrap())]);
        let created = send(&served, &token, "POST /api/sessions", &json!({}));
        let path = format!("/api/sessions/{}", json_of(&created)["id"].as_str().unwrap());
        let prompt = || {
            let body = json!({ "message": "Hello" });
            send(&served, &token, &format!("POST {path}/prompt"), &body)
        };
        assert_eq!(prompt().status, 202, "{flags:?} {settings}");
        served.model.request().reply_with_usage("Hi.", 9, 1);
        let status = || json_of(&send(&served, &token, &format!("GET {path}"), &json!({})));
        while status()["running"] == true {}
        let refused = prompt();
        assert_eq!(refused.status, 429, "{flags:?} {settings}: {refused:?}");
        assert!(refused.body.contains("daily budget of `ann`"), "{refused:?}");
    }
}
