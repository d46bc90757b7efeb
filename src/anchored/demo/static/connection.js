// Keeps one websocket to the server alive, and says so when it is not.

const WAITS = [0.5, 1, 2, 4, 8, 15]; // seconds before trying again
const PAUSE = 40; // milliseconds between messages of one kind: the server refuses floods
const QUIET = 1000; // close code of a line that was silent for long

/**
 * Connect to `/ws` of the page's own host. `heard(message)` gets each message; `lost(why, seconds)`
 * is told the server's reason, if it gave one, and when the next try comes (null: only when asked);
 * `up()` that the line is there again.
 */
export function connect({ heard, lost, up }) {
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;
  let socket = null,
    tries = 0,
    timer = 0;

  const open = () => {
    clearTimeout(timer);
    const mine = new WebSocket(address);
    socket = mine;
    mine.onmessage = (event) => {
      const message = JSON.parse(event.data);
      if (message.type === "hello") {
        tries = 0;
        up();
      }
      heard(message);
    };
    mine.onclose = ({ code, reason }) => {
      if (socket !== mine) return;
      if (code === QUIET) {
        lost(reason, null);
        return;
      }
      const wait = WAITS[Math.min(tries, WAITS.length - 1)];
      tries += 1;
      lost(reason, wait);
      timer = setTimeout(open, 1000 * wait);
    };
  };
  open();

  return {
    send: (message) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(JSON.stringify(message));
    },
    retry: () => {
      if (socket.readyState > WebSocket.OPEN) open();
    },
  };
}

/** Call `act` now and then at most once in a `PAUSE`, but always after the last asking. */
export function paced(act) {
  let timer = 0,
    again = false;
  const go = () => {
    again = false;
    act();
    timer = setTimeout(() => {
      timer = 0;
      if (again) go();
    }, PAUSE);
  };
  return () => {
    if (timer) again = true;
    else go();
  };
}
