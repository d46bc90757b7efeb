// Keeps one websocket to the server alive, and says so when it is not.

const WAITS = [0.5, 1, 2, 4, 8, 15]; // seconds before trying again

/**
 * Connect to `/ws` of the page's own host. `heard(message)` gets each message; `lost(seconds)` is
 * told when the next try comes, `lost(null)` that the line is up.
 */
export function connect({ heard, lost }) {
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`;
  let socket = null, tries = 0, timer = 0;

  const open = () => {
    clearTimeout(timer);
    const mine = new WebSocket(address);
    socket = mine;
    mine.onmessage = (event) => {
      if (tries > 0) lost(null);
      tries = 0;
      heard(JSON.parse(event.data));
    };
    mine.onclose = () => {
      if (socket !== mine) return;
      const wait = WAITS[Math.min(tries, WAITS.length - 1)];
      tries += 1;
      lost(wait);
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
