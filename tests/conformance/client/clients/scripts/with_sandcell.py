"""What a person does with the client alone: `python with_sandcell.py URL TOKEN`. Prints one JSON object."""

import asyncio
import json
import sys

import kernel_gateway
from sandcell import AsyncClient, Client, NotFound

PLOT = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"


def block(url: str, token: str) -> dict[str, object]:
    with Client(url, token) as client, client.session() as session:
        session.upload("greeting.txt", b"hello")
        session.run("x = open('greeting.txt').read()")
        plot = session.run(PLOT)
        try:
            client.get_session("00000000-0000-4000-8000-000000000000")
        except NotFound as error:
            absent = error.code
        return {
            "text": session.run("print(x)").text,
            "plot": [display.media_type for display in plot.displays],
            "shell": session.command("cat greeting.txt").stdout,
            "absent": absent,
        }


async def follow(url: str, token: str) -> list[str]:
    async with AsyncClient(url, token) as client, client.session() as session:
        submitted = await session.submit("print('one')")
        return [event.event async for event in session.events(submitted.id)]


if __name__ == "__main__":
    said = block(*sys.argv[1:])
    said["events"] = asyncio.run(follow(*sys.argv[1:]))
    said["kernel_gateway"] = kernel_gateway.launch_instance.__module__
    print(json.dumps(said))
