//! Frames of RFC 6455: the valid ones by the library with which kube reads them, the others byte by byte.
use super::dice::Dice;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::Frame;
use tungstenite::protocol::frame::coding::{CloseCode, Data, OpCode};

/// What an eager reader would take for an exit code 0. It stands in frames that must not be read.
pub const BAIT: &[u8] = b"\x03{\"metadata\":{},\"status\":\"Success\"}";

fn formatted(frame: Frame) -> Vec<u8> {
    let mut bytes = Vec::new();
    frame.format(&mut bytes).unwrap();
    bytes
}

/// A binary message: a channel's number and what is said on it.
pub fn binary(channel: u8, said: &[u8]) -> Vec<u8> {
    formatted(Frame::message([&[channel], said].concat(), OpCode::Data(Data::Binary), true))
}

/// The same in fragments, with pings between them.
pub fn in_fragments(dice: &mut Dice, channel: u8, said: &[u8]) -> Vec<u8> {
    let message = [&[channel], said].concat();
    let (mut bytes, mut from) = (Vec::new(), 0);
    loop {
        let to = (from + dice.below(message.len() / 2 + 2)).min(message.len());
        let kind = if from == 0 && bytes.is_empty() { Data::Binary } else { Data::Continue };
        bytes.extend(formatted(Frame::message(message[from..to].to_vec(), OpCode::Data(kind), to == message.len())));
        if to == message.len() {
            return bytes;
        }
        if dice.one_in(3) {
            bytes.extend(formatted(Frame::ping(dice.bytes(3))));
        }
        from = to;
    }
}

/// The close of the connection, with a reason.
pub fn close(dice: &mut Dice) -> Vec<u8> {
    let code = dice.of(&[
        CloseCode::Normal,
        CloseCode::Away,
        CloseCode::Error,
        CloseCode::Library(4000),
        CloseCode::Iana(3999),
    ]);
    let reason = dice.of(&["", "bye", "{\"status\":\"Success\"}"]).into();
    formatted(Frame::close(dice.of(&[None, Some(CloseFrame { code, reason })])))
}

/// What has no meaning in the protocol of executions, and has to be passed over.
pub fn idle(dice: &mut Dice) -> (&'static str, Vec<u8>) {
    let length = dice.below(126);
    let more = dice.bytes(length);
    match dice.below(8) {
        0 => ("ping", formatted(Frame::ping(more))),
        1 => ("pong that nobody asked for", formatted(Frame::pong(more))),
        2 => ("empty channel", binary(dice.of(&[1, 2, 3]), b"")),
        3 => ("empty message", formatted(Frame::message(Vec::new(), OpCode::Data(Data::Binary), true))),
        4 => ("unknown channel", binary(dice.of(&[0, 4, 5, 77, 200, 254]), &[BAIT, &more].concat())),
        5 => ("end of a channel (v5)", binary(255, &[dice.of(&[0, 1, 2])])),
        6 => ("status as text", formatted(Frame::message(BAIT, OpCode::Data(Data::Text), true))),
        _ => ("output as text", formatted(Frame::message(b"\x01no output".as_slice(), OpCode::Data(Data::Text), true))),
    }
}

/// A frame with any first byte and a payload of less than 126 bytes.
fn raw(first: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).unwrap();
    [&[first, length], payload].concat()
}

/// What breaks RFC 6455, so that nothing after it can be trusted.
pub fn violation(dice: &mut Dice) -> (&'static str, Vec<u8>) {
    let mask = [7_u8, 1, 9, 3];
    let masked: Vec<u8> = BAIT.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    let masked = [&[0x82, 0x80 | u8::try_from(BAIT.len()).unwrap()], &mask[..], &masked].concat();
    let wide = |length: u64| [&[0x82, 127], &length.to_be_bytes()[..], BAIT].concat();
    dice.of(&[
        ("masked frame", masked),
        ("compressed bit", raw(0xc2, BAIT)),
        ("reserved bits", raw(0xa2, BAIT)),
        ("reserved kind of data", raw(0x83, BAIT)),
        ("reserved kind of control", raw(0x8b, BAIT)),
        ("ping of 126 bytes", [&[0x89, 126, 0, 126], &[b'x'; 126][..]].concat()),
        ("ping in fragments", raw(0x09, b"x")),
        ("continuation of nothing", raw(0x80, BAIT)),
        ("message within another's fragments", [raw(0x02, b"\x01x"), raw(0x82, BAIT)].concat()),
        ("close of one byte", raw(0x88, b"x")),
        ("close with a reason that is no text", raw(0x88, &[3, 232, 255, 255])),
        ("text that is none", raw(0x81, &[0xff, 0xfe])),
        ("frame of 20 MiB", wide(20 << 20)),
        ("frame of 2^63 bytes", wide(1 << 63)),
        ("HTTP in place of frames", b"HTTP/1.1 502 Bad Gateway\r\n\r\n".to_vec()),
    ])
}
