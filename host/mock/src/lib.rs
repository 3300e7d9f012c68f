//! An API server for tests with scripted answers. It remembers the requests, and can refuse them or never answer.
#![allow(clippy::unwrap_used, reason = "tests may")]
use futures::FutureExt;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

/// The answer to one request: code and body. `None`: it is never answered.
pub type Said = Option<(u16, Value)>;

/// Requests so far: method, path with query, body.
pub type Asked = Arc<Mutex<Vec<(String, String, Value)>>>;

/// What happens to one request.
pub enum Reply {
    /// It is answered.
    Response(Box<Response<Body>>),
    /// The connection breaks.
    Broken,
    /// It is never answered.
    Never,
}

/// A client whose requests are all answered by that function.
pub fn client(namespace: &str, answer: impl Fn(Request<Body>) -> Reply + Send + Sync + 'static) -> Client {
    Client::new(service(answer), namespace)
}

/// The service behind such a client.
pub fn service(
    answer: impl Fn(Request<Body>) -> Reply + Send + Sync + 'static,
) -> impl tower::Service<Request<Body>, Response = Response<Body>, Error = std::io::Error, Future: Send>
+ Clone
+ Send
+ 'static {
    let answer = Arc::new(answer);
    tower::service_fn(move |request| {
        let answer = answer.clone();
        async move {
            match answer(request) {
                Reply::Response(response) => Ok(*response),
                Reply::Broken => Err(std::io::Error::other("connection reset")),
                Reply::Never => std::future::pending().await,
            }
        }
    })
}

/// A client whose requests are answered by that function, and the list of its requests.
pub fn server(answer: impl FnMut(&str, &str, &Value) -> Said + Send + 'static) -> (Client, Asked) {
    let asked = Asked::default();
    let requests = asked.clone();
    let answer = Mutex::new(answer);
    let client = client("shop", move |request| {
        let method = request.method().to_string();
        let path = request.uri().path_and_query().unwrap().to_string();
        // The bodies of these requests are in memory.
        let bytes = request.into_body().collect_bytes().now_or_never().unwrap().unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        requests.lock().unwrap().push((method.clone(), path.clone(), body.clone()));
        match (*answer.lock().unwrap())(&method, &path, &body) {
            Some((code, said)) => {
                let body = Body::from(serde_json::to_vec(&said).unwrap());
                Reply::Response(Box::new(Response::builder().status(code).body(body).unwrap()))
            }
            None => Reply::Never,
        }
    });
    (client, asked)
}

/// A refusal as the API server writes it.
pub fn refusal(code: u16, reason: &str, message: &str) -> Said {
    Some((
        code,
        json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": message}),
    ))
}

/// The error that kube makes of an answer of the API server.
pub fn refused(code: u16, reason: &str, message: &str) -> kube::Error {
    let mut status = kube::core::Status::failure(message, reason);
    status.code = code;
    kube::Error::Api(Box::new(status))
}
