"""Images: what environments are made from. Endpoints translate and decide nothing."""

from __future__ import annotations

from typing import Any, Final

from kernel_gateway import errors as e
from kernel_gateway.faces.rest.calls import Call
from kernel_gateway.faces.rest.parameters import AnyObject, PageOf
from kernel_gateway.faces.rest.route import Route
from sandcell.models.images import ImageDetails, ImageInfo
from sandcell.models.model import Page


async def list_images(call: Call) -> Page[ImageInfo]:
    return await call.services.images.list(call.principal, call.query.limit, call.query.cursor)


async def get_image(call: Call) -> ImageDetails:
    return await call.services.images.get(call.principal, call.ids["image_id"])


async def get_image_sbom(call: Call) -> dict[str, Any]:
    return await call.services.images.get_sbom(call.principal, call.ids["image_id"])


IMAGE: Final = "/v1/images/{image_id}"

ROUTES: Final[tuple[Route, ...]] = (
    Route(
        "GET",
        "/v1/images",
        list_images,
        name="listImages",
        event="ListImages",
        summary="List the images that environments are made from",
        result=Page[ImageInfo],
        query=PageOf,
    ),
    Route(
        "GET",
        IMAGE,
        get_image,
        name="getImage",
        event="GetImage",
        summary="Show an image and its packages, by its digest or an environment's name",
        result=ImageDetails,
        errors=(e.UnknownEnvironment, e.EnvironmentUnavailable),
    ),
    Route(
        "GET",
        f"{IMAGE}/sbom",
        get_image_sbom,
        name="getImageSbom",
        event="GetImageSbom",
        summary="The software bill of materials of an image (CycloneDX 1.5)",
        result=AnyObject,
        errors=(e.UnknownEnvironment, e.EnvironmentUnavailable),
    ),
)
