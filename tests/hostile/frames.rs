//! HTTP/2 frames as bytes, right and wrong ones. Sends nothing.

/// Kinds of frames.
pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const PRIORITY: u8 = 2;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PUSH_PROMISE: u8 = 5;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

/// Flags.
pub(crate) const ACK: u8 = 1;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// How a client begins.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// One frame.
pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = vec![length[1], length[2], length[3], kind, flags];
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The headers of a call, with more if need be; each below 127 bytes.
pub(crate) fn headers(path: &str, more: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    let usual = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "hostile"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    for (name, value) in usual.iter().chain(more) {
        block.push(0);
        for text in [name, value] {
            assert!(text.len() < 127);
            block.push(u8::try_from(text.len()).unwrap());
            block.extend(text.bytes());
        }
    }
    block
}

/// A call's headers as one frame.
pub(crate) fn call(path: &str, stream: u32) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, &headers(path, &[]))
}

/// A whole call with one message.
pub(crate) fn whole_call(path: &str, stream: u32, message: &[u8]) -> Vec<u8> {
    let mut bytes = call(path, stream);
    bytes.extend(frame(
        DATA,
        END_STREAM,
        stream,
        &escapement_tests::raw_session::framed(message),
    ));
    bytes
}

/// One setting.
pub(crate) fn setting(id: u16, value: u32) -> Vec<u8> {
    let mut payload = id.to_be_bytes().to_vec();
    payload.extend(value.to_be_bytes());
    payload
}

pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;

pub(crate) const GET: &str = "/escapement.v1.PlanExecutionService/GetExecution";
pub(crate) const SUBMIT: &str = "/escapement.v1.PlanExecutionService/SubmitPlan";
pub(crate) const WAIT: &str = "/escapement.v1.PlanExecutionService/WaitExecution";
pub(crate) const WATCH: &str = "/escapement.v1.PlanExecutionService/WatchExecution";
pub(crate) const LIST: &str = "/escapement.v1.PlanExecutionService/ListExecutions";
pub(crate) const VALIDATE: &str = "/escapement.v1.PlanExecutionService/ValidatePlan";
pub(crate) const SESSION: &str = "/escapement.worker.v1.WorkerService/Session";
pub(crate) const SUBSCRIBE: &str = "/escapement.v1.EventService/SubscribeEvents";
