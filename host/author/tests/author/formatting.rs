//! The usual form of scripts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use tanist_author::format::format;

use super::{INTERPRETER, tools};

fn formatted(text: &str) -> String {
    format(&tools(), Path::new("mine.star"), text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refused(name: &str, text: &[u8]) -> String {
    format(&tools(), Path::new(name), text).unwrap_err().to_string()
}

/// One rule each: as it is written, and in the usual form.
const RULES: [(&str, &str); 24] = [
    ("x = 1\r\ny = 2\r\n", "x = 1\ny = 2\n"),
    ("\u{feff}x = 1\n", "x = 1\n"),
    ("def f(s):\n\tif s:\n\t\treturn 1\n", "def f(s):\n    if s:\n        return 1\n"),
    ("x = 1   \n\n", "x = 1\n"),
    ("\n\nx = 1", "x = 1\n"),
    ("x = 1\n\n\n\n\ny = 2\n", "x = 1\n\n\ny = 2\n"),
    ("def f(s):\n    a = 1\n\n\n    return a\n", "def f(s):\n    a = 1\n\n    return a\n"),
    (
        "x = 1\ndef f(s): return 1\ndef g(s): return 2\ny = 3\n",
        "x = 1\n\ndef f(s): return 1\n\ndef g(s): return 2\n\ny = 3\n",
    ),
    (
        "x = 1\n# Of f.\ndef f(s):\n    return 1\n# Of y.\ny = f\n",
        "x = 1\n\n# Of f.\ndef f(s):\n    return 1\n\n# Of y.\ny = f\n",
    ),
    ("def f(s):\n    a = 1\n# In it.\n    return a\n", "def f(s):\n    a = 1\n# In it.\n    return a\n"),
    ("x=1 +2*  3\n", "x = 1 + 2 * 3\n"),
    ("x = [ 1,2 , 3 ]\n", "x = [1, 2, 3]\n"),
    ("x = {'a':1,'b' : -2}\n", "x = {'a': 1, 'b': -2}\n"),
    ("x = f (a=1, * b, ** c)\n", "x = f(a = 1, *b, **c)\n"),
    ("x = a [1:-1] + b[1 : 2]\n", "x = a[1:-1] + b[1 : 2]\n"),
    ("f = lambda  m :m . data\n", "f = lambda m: m.data\n"),
    ("x = not(a)and - b in(c)\n", "x = not (a) and -b in (c)\n"),
    ("x = 1 # one\ny = 22    # two\n", "x = 1  # one\ny = 22    # two\n"),
    ("x = 1 + \\\n  2\n", "x = 1 + \\\n  2\n"),
    ("x = [\n  1,\n\n\n  2  ,\n]\n", "x = [\n  1,\n\n  2,\n]\n"),
    ("def f(a:int,b = 1)->int: return a\n", "def f(a: int, b = 1) -> int: return a\n"),
    ("x = a if b else-c; y = 2\n", "x = a if b else -c; y = 2\n"),
    ("x = [a<b,c!=d,e>=f//g<<h,i==j]\n", "x = [a < b, c != d, e >= f // g << h, i == j]\n"),
    ("   \n", ""),
];

// P43: each rule of the usual form. What is in it stays as it is.
#[test]
fn a_script_is_written_in_its_usual_form() {
    for (text, usual) in RULES {
        assert_eq!(formatted(text), usual, "{text}");
        assert_eq!(formatted(usual), usual, "again");
    }
}

/// Texts that look like something else, in every kind of quotes, and breaks of lines in every place.
const AWKWARD: [&str; 12] = [
    "x = 'a  #  b'  +\"c ,d\"#e\n",
    "x = '''a\n\tb  \n\n\n\n  c # d\n'''\ny = x\n",
    "x = \"\"\"a\r\n\r\nb\"\"\"\r\ny=1\r\n",
    "x = r'a\\b' + r'\\'' + \"it's\" + '\\\\'\n",
    "def f(s):\n    \"\"\"Says\n\n\n      what it does.\n    \"\"\"\n    return None\n",
    "x = [m for m in [1,2]if m>1 ]\n",
    "x = {\n  # One.\n  'a':1, # one\n\n  # Two.\n  'b':2,\n}\n",
    "def f(s):\n  if s:\n     return 1\n  elif not s :\n        return[2]\n  else: pass\n  return(3)\n",
    "x = (1\n+ 2\n      - 3)\n",
    "x = 'a\\\n   b'\n",
    "y=''\nx = f'{y} ,{y }' if y else''\n",
    "x = 0xE + 1\ny = 1.5e-3-2\nz = ~ -1\n",
];

// P43: awkward texts mean the same afterwards, and formatting twice is formatting once.
#[test]
fn awkward_texts_keep_their_meaning() {
    for text in AWKWARD.into_iter().chain(RULES.map(|(text, _)| text)) {
        let once = formatted(text);
        assert_eq!(formatted(&once), once, "{text}");
        let meaning = |text: &str| INTERPRETER.meaning("mine.star", text).ok();
        // The parser refuses tabs and a mark at the begin of a file, so that these have no meaning before.
        if let Some(before) = meaning(text) {
            assert_eq!(meaning(&once), Some(before), "{text}");
        }
    }
    let text = "x = '''a\n\tb  \n\n\n\n  c # d\n'''\n";
    assert_eq!(formatted(text), text, "what is in a text stays");
}

// Every script of the repository is in the usual form.
#[test]
fn the_scripts_of_the_repository_are_in_the_usual_form() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut scripts = Vec::new();
    for folder in ["examples", "policies", "host"] {
        find(&root.join(folder), &mut scripts);
    }
    assert!(scripts.len() >= 8, "{scripts:?}");
    let differs = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        format(&tools(), path, text.as_bytes()).unwrap_or_else(|error| panic!("{error}")) != text
    };
    scripts.retain(differs);
    assert!(scripts.is_empty(), "{scripts:?}");
}

fn find(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            find(&path, found);
        } else if path.extension().is_some_and(|end| end == "star") {
            found.push(path);
        }
    }
}

#[test]
fn what_is_no_script_is_refused_with_its_place() {
    assert!(refused("mine.star", b"x = 1\ny = (2\n").contains("mine.star:"));
    assert!(refused("mine.star", b"x = 1\ny = = 2\n").contains("mine.star:2:5"));
    assert!(refused("mine.star", b"x = '\xff'\n").contains("not UTF-8"));
    assert!(refused("mine.py", b"x = 1\n").contains("ends with .star"));
}
