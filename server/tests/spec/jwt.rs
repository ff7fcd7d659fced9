//! Callers known to an OpenID Connect provider.

use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use axum::http::{Method, header};
use axum::routing::get;
use axum::{Json, Router};

use jsonwebtoken::{Algorithm, EncodingKey, Header, encode};
use loopwright_core::log::InMemoryStore;
use loopwright_core::testing::ScriptedModel;
use loopwright_core::{GenericAgent, Principal};
use loopwright_host::OperatorRules;
use loopwright_patterns::PiPattern;
use loopwright_server::{Caller, JwtUsers, Server};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::api::Api;
use crate::http2::{Client, Served};

/// The prefix of an Ed25519 key in PKCS #8 format.
const PKCS8: &str = "302e020100300506032b657004220420";
/// The key of RFC 8037, appendix A, and the second of RFC 8032, section 7.1.
const SECRETS: [&str; 2] = [
    "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
    "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
];
const PUBLIC: [&str; 2] =
    ["11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo", "PUAXw-hDiVqStwqnTRt-vJyYLM8uxJaMwM1V8Sr0Zgw"];

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn jwk(number: usize) -> Value {
    let kid = format!("k{number}");
    json!({ "kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "kid": kid, "x": PUBLIC[number] })
}

/// Signs claims with a key, under the given key id.
fn sign(number: usize, id: &str, claims: &Value) -> String {
    let header = Header { kid: Some(id.into()), ..Header::new(Algorithm::EdDSA) };
    let key = EncodingKey::from_ed_der(&bytes(&format!("{PKCS8}{}", SECRETS[number])));
    encode(&header, claims, &key).unwrap()
}

/// Starts an issuer with these keys. Returns its address.
async fn issuer(keys: Arc<Mutex<Vec<Value>>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let document = json!({ "issuer": own, "jwks_uri": format!("{own}/keys") });
    let app = Router::new()
        .route("/.well-known/openid-configuration", get(async move || Json(document)))
        .route("/keys", get(async move || Json(json!({ "keys": *keys.lock().unwrap() }))));
    tokio::spawn(async move { axum::serve(listener, app).await });
    own
}

async fn call(client: &mut Client, token: &str, method: Method, path: &str) -> (u16, Value) {
    let mut request = client.request(method, path, &json!({}));
    let token = format!("Bearer {token}").parse().unwrap();
    request.headers_mut().insert(header::AUTHORIZATION, token);
    client.call(request).await
}

/// C229: A token of the issuer names its caller, with roles. A token is refused if it is expired,
/// has another audience or issuer, no expiry, another key or no signature.
#[tokio::test]
async fn a_token_of_the_issuer_names_its_caller() {
    let keys = Arc::new(Mutex::new(vec![jwk(0)]));
    let own = issuer(keys.clone()).await;
    let users = JwtUsers::new(&own, "loopwright").roles_claim("realm.roles");
    let served = Served::start(Vec::new(), |builder| {
        builder.jwt(users).token("a-token-of-32-characters-0123456")
    })
    .await;
    let mut client = served.connect().await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = |name: &str, roles: &[&str]| {
        json!({
            "sub": name, "iss": own, "aud": ["loopwright"], "exp": now + 600,
            "realm": { "roles": roles },
        })
    };
    let ann = sign(0, "k0", &claims("ann", &[]));
    let (status, created) = call(&mut client, &ann, Method::POST, "/api/sessions").await;
    assert_eq!(status, 201, "{created}");
    let path = format!("/api/sessions/{}", created["id"].as_str().unwrap());
    for (name, roles, status) in
        [("ann", &[][..], 200), ("bob", &[], 404), ("bob", &["other", "reader"], 200)]
    {
        let token = sign(0, "k0", &claims(name, roles));
        let (got, session) = call(&mut client, &token, Method::GET, &path).await;
        assert_eq!(got, status, "{name} {roles:?}: {session}");
        assert!(status == 404 || session["session"]["owner"] == "ann", "{session}");
    }
    let changed = |name: &str, value: Value| {
        let mut claims = claims("ann", &["admin"]);
        claims[name] = value;
        sign(0, "k0", &claims)
    };
    let crit = Header {
        kid: Some("k0".into()),
        crit: Some(vec!["exp".into()]),
        ..Header::new(Algorithm::EdDSA)
    };
    let own_key = EncodingKey::from_ed_der(&bytes(&format!("{PKCS8}{}", SECRETS[0])));
    let unsigned = format!("{}.", ann.rsplit_once('.').unwrap().0);
    let none = format!("eyJhbGciOiJub25lIn0.{}.", ann.split('.').nth(1).unwrap());
    let secret = EncodingKey::from_secret(PUBLIC[0].as_bytes());
    let shared = Header { kid: Some("k0".into()), ..Header::new(Algorithm::HS256) };
    for (wrong, token) in [
        ("expired", changed("exp", json!(now - 60))),
        ("without an expiry", changed("exp", Value::Null)),
        ("not valid yet", changed("nbf", json!(now + 600))),
        ("for another audience", changed("aud", json!("other"))),
        ("of another issuer", changed("iss", json!("https://id.example.org"))),
        ("for nobody", changed("sub", json!(""))),
        ("signed with another key", sign(1, "k0", &claims("ann", &["admin"]))),
        ("with a key that the issuer does not have", sign(1, "k1", &claims("ann", &["admin"]))),
        ("signed with a shared secret", encode(&shared, &claims("ann", &[]), &secret).unwrap()),
        ("without a signature", unsigned),
        ("with the algorithm `none`", none),
        ("with `crit`", encode(&crit, &claims("ann", &[]), &own_key).unwrap()),
        ("no JWT", "a.b.c".into()),
    ] {
        let (status, refused) = call(&mut client, &token, Method::GET, &path).await;
        let kind = &refused["error"]["kind"];
        assert_eq!((status, kind), (401, &json!("token")), "{wrong}: {refused}");
        assert!(!refused.to_string().contains(&token), "{refused}");
    }
    let operator = "a-token-of-32-characters-0123456";
    assert_eq!(call(&mut client, operator, Method::GET, &path).await.0, 200);
}

/// C284: A server with an issuer lets neither its callers nor its operator approve anything for
/// good, unless its rules allow it.
#[tokio::test]
async fn a_server_with_an_issuer_has_strict_rules() {
    let create = async |caller: Option<&str>, rules: Option<OperatorRules>| {
        let api = Api::with(Arc::new(InMemoryStore::new()), [], |builder| {
            let builder = builder.jwt(JwtUsers::new("https://id.example.org", "loopwright"));
            match rules {
                Some(rules) => builder.rules(rules),
                None => builder,
            }
        });
        let api = caller.map_or(api.clone(), |name| api.as_user(name));
        let approved = json!({ "approve": ["write_file"] });
        let (status, body) = api.post("/api/sessions", approved).await;
        (status, body["error"]["path"].clone())
    };
    for caller in [Some("ann"), None] {
        assert_eq!(create(caller, None).await, (403, json!("/approve/0")), "{caller:?}");
        assert_eq!(create(caller, Some(OperatorRules::open())).await.0, 201, "{caller:?}");
    }
}

/// C229: Keys that the issuer adds later are fetched. Without any keys, tokens cannot be checked.
#[tokio::test]
async fn new_keys_are_fetched() {
    let keys = Arc::new(Mutex::new(Vec::new()));
    let own = issuer(keys.clone()).await;
    let users = JwtUsers::new(&own, "loopwright");
    let served = Served::start(Vec::new(), |builder| builder.jwt(users)).await;
    let mut client = served.connect().await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({ "sub": "ann", "iss": own, "aud": "loopwright", "exp": now + 600 });
    let token = sign(1, "k1", &claims);
    let mut get = async || call(&mut client, &token, Method::GET, "/api/sessions").await.0;
    assert_eq!(get().await, 401);
    keys.lock().unwrap().push(jwk(1));
    assert_eq!(get().await, 401, "not fetched again for each token");
    tokio::time::pause();
    tokio::time::advance(std::time::Duration::from_secs(11)).await;
    tokio::time::resume();
    assert_eq!(get().await, 200);

    let gone = JwtUsers::new("http://127.0.0.1:9", "loopwright");
    let served = Served::start(Vec::new(), |builder| builder.jwt(gone)).await;
    let mut client = served.connect().await;
    assert_eq!(call(&mut client, &token, Method::GET, "/api/sessions").await.0, 503);
}

/// C293: While the issuer is slow, tokens with known keys are checked without it.
#[tokio::test]
async fn a_slow_issuer_delays_only_tokens_with_unknown_keys() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = format!("http://{}", listener.local_addr().unwrap());
    let (asked, mut asks) = tokio::sync::mpsc::unbounded_channel();
    let answers = Arc::new(tokio::sync::Semaphore::new(1));
    let answer = answers.clone();
    let keys = async move || {
        asked.send(()).unwrap();
        answer.acquire().await.unwrap().forget();
        Json(json!({ "keys": [jwk(0)] }))
    };
    let app = Router::new().route("/keys", get(keys));
    tokio::spawn(async move { axum::serve(listener, app).await });
    let users = JwtUsers::new(&own, "loopwright").keys_url(format!("{own}/keys"));
    let served = Served::start(Vec::new(), |builder| builder.jwt(users)).await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let claims = json!({ "sub": "ann", "iss": own, "aud": "loopwright", "exp": now + 9_000 });
    let tokens = [sign(0, "k0", &claims), sign(1, "k1", &claims)];
    let mut client = served.connect().await;
    let get = async |client: &mut Client, n: usize| {
        call(client, &tokens[n], Method::GET, "/api/sessions").await.0
    };
    assert_eq!(get(&mut client, 0).await, 200);
    asks.recv().await.unwrap();
    let advance = async |seconds| {
        tokio::time::pause();
        tokio::time::advance(std::time::Duration::from_secs(seconds)).await;
        tokio::time::resume();
    };
    advance(11).await;
    // The previous connection was idle.
    let mut clients = [served.connect().await, served.connect().await, served.connect().await];
    let [first, second, third] = &mut clients;
    let unknown = async { tokio::join!(get(first, 1), get(second, 1)) };
    let known = async {
        asks.recv().await.unwrap(); // the issuer is asked for the other key, and does not answer
        let known = get(third, 0).await;
        answers.add_permits(1);
        known
    };
    let (unknown, known) = tokio::join!(unknown, known);
    assert_eq!((unknown, known), ((401, 401), 200), "there is one key");
    assert!(asks.try_recv().is_err(), "the issuer was asked once for both");

    // Keys that are used are fetched again in the background.
    advance(55 * 60).await;
    let mut client = served.connect().await; // the others were idle
    assert_eq!(get(&mut client, 0).await, 200);
    asks.recv().await.unwrap();
    assert_eq!(get(&mut client, 0).await, 200);
}

/// C294: A token of the issuer that names a user of the server, or the operator, is refused. Users
/// of the server cannot have the names of the operator and of the session itself.
#[tokio::test]
async fn tokens_of_an_issuer_name_no_user_of_the_server() {
    let keys = Arc::new(Mutex::new(vec![jwk(0)]));
    let own = issuer(keys).await;
    let users = JwtUsers::new(&own, "loopwright");
    let token = "a-token-of-32-characters-0123456";
    let ann = Caller::new(Principal::new("ann"));
    let served = Served::start(Vec::new(), |builder| builder.jwt(users).user(token, ann)).await;
    let mut client = served.connect().await;
    assert_eq!(call(&mut client, token, Method::GET, "/api/sessions").await.0, 200);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for (name, status) in [("bob", 200), ("ann", 401), ("operator", 401), ("system", 401)] {
        let claims = json!({ "sub": name, "iss": own, "aud": "loopwright", "exp": now + 600 });
        let token = sign(0, "k0", &claims);
        let (got, body) = call(&mut client, &token, Method::GET, "/api/sessions").await;
        assert_eq!(got, status, "{name}: {body}");
        let is_named = body["error"]["message"].to_string().contains(&format!("`{name}`"));
        assert_eq!(is_named, status == 401, "{body}");
    }
    for name in ["operator", "system"] {
        let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
        let server = Server::builder(InMemoryStore::new()).agent("agent", agent);
        let built = server.user(token, Caller::new(Principal::new(name))).build();
        let why = built.err().unwrap().to_string();
        assert!(why.contains(&format!("cannot have the name `{name}`")), "{why}");
    }
}

/// C417: A token for a name that looks like another, or is invisible, is refused. Names that differ
/// only in case are two people of the issuer, unless one is a user of the server.
#[tokio::test]
async fn names_that_are_shown_alike_are_refused() {
    let own = issuer(Arc::new(Mutex::new(vec![jwk(0)]))).await;
    let users = JwtUsers::new(&own, "loopwright");
    let ann = Caller::new(Principal::new("ann"));
    let served =
        Served::start(Vec::new(), |builder| builder.jwt(users).user("x".repeat(32), ann)).await;
    let mut client = served.connect().await;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for (name, status) in [
        ("eve", 200),
        ("Eve", 200),
        ("auth0|65f0", 200),
        ("Ann", 401),
        ("Operator", 401),
        ("operator ", 401),
        ("eve\u{200b}", 401),
        ("\u{ff45}ve", 401),
        ("\u{1b}[2Jeve", 401),
        ("eve\0", 401),
    ] {
        let claims = json!({ "sub": name, "iss": own, "aud": "loopwright", "exp": now + 600 });
        let token = sign(0, "k0", &claims);
        let (got, body) = call(&mut client, &token, Method::GET, "/api/sessions").await;
        assert_eq!(got, status, "{name:?}: {body}");
        assert!(!body.to_string().contains("\\u001b"), "{body}");
    }
    for (first, second) in [("ann", "Ann"), ("ann", "bob "), ("ann", "b\u{200b}ob")] {
        let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
        let server = Server::builder(InMemoryStore::new()).agent("agent", agent);
        let server = server.user("a".repeat(32), Caller::new(Principal::new(first)));
        let server = server.user("b".repeat(32), Caller::new(Principal::new(second)));
        assert!(server.build().is_err(), "{second:?}");
    }
    let api = Api::new([]).as_user("ann\u{200b}");
    assert_eq!(api.call("GET", "/api/sessions", None).await.0, 403, "named by a layer of the host");
}

/// C418: A key of the issuer that is not for signatures is not used.
#[tokio::test]
async fn keys_for_other_purposes_are_not_used() {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    for (name, value, status) in [
        ("use", json!("sig"), 200),
        ("key_ops", json!(["verify"]), 200),
        ("use", json!("enc"), 401),
        ("use", json!("other"), 401),
        ("key_ops", json!(["encrypt"]), 401),
        ("key_ops", json!([]), 401),
    ] {
        let mut key = jwk(0);
        key[name] = value.clone();
        let own = issuer(Arc::new(Mutex::new(vec![key]))).await;
        let users = JwtUsers::new(&own, "loopwright");
        let served = Served::start(Vec::new(), |builder| builder.jwt(users)).await;
        let claims = json!({ "sub": "ann", "iss": own, "aud": "loopwright", "exp": now + 600 });
        let token = sign(0, "k0", &claims);
        let mut client = served.connect().await;
        let got = call(&mut client, &token, Method::GET, "/api/sessions").await.0;
        assert_eq!(got, status, "{name}: {value}");
    }
}

/// Keys from an address without https could be forged.
#[test]
fn an_issuer_needs_https() {
    let build = |users: JwtUsers| {
        let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern);
        let agent = agent.build().unwrap();
        Server::builder(InMemoryStore::new()).agent("agent", agent).jwt(users).build()
    };
    for wrong in ["http://id.example.org", "id.example.org", "http://127.0.0.1.example.org"] {
        let refused = build(JwtUsers::new(wrong, "a")).err().unwrap().to_string();
        assert!(refused.contains(&format!("`{wrong}` is no address with https")), "{refused}");
        let keys = JwtUsers::new("https://id.example.org", "a").keys_url(wrong);
        assert!(build(keys).is_err());
    }
    for right in ["https://id.example.org/realm", "http://127.0.0.1:8080", "http://[::1]:80"] {
        assert!(build(JwtUsers::new(right, "a")).is_ok(), "{right}");
    }
}
